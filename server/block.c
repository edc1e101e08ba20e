#include "server/block.h"

#include "base/arena.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

void *block_new(size_t bytes)
{
    void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return block == MAP_FAILED ? NULL : block;
}

void *block_for_work(size_t bytes)
{
    void *block = block_new(bytes);

    if (block)
        (void)madvise(block, bytes, MADV_HUGEPAGE); /* an arena fills from its begin on: fewer faults, and fewer pages to look up; a kernel may refuse */
    return block;
}

void block_free(void *block, size_t bytes)
{
    struct arena whole;

    if (!block)
        return;
    arena_init(&whole, block, bytes);
    (void)arena_push_raw(&whole, 1, 1, bytes); /* whoever gets these addresses next finds them unpoisoned */
    (void)munmap(block, bytes);
}

void block_empty(void *block, size_t bytes)
{
    (void)madvise(block, bytes, MADV_DONTNEED);
}

void block_forget(const struct arena *a)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), taken = page - (uintptr_t)a->cur % page;

    if (taken < (size_t)(a->end - a->cur))
        block_empty(a->cur + taken, (size_t)(a->end - a->cur) - taken);
}

void block_trim(void *block, size_t bytes, size_t keep)
{
    enum { LOOK_PAGES = 16 << 10 };
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = bytes / page, kept = 0, end = 0;
    unsigned char there[LOOK_PAGES];

    for (size_t at = 0, some; at < pages && kept * page < keep; at += some) {
        some = pages - at < LOOK_PAGES ? pages - at : LOOK_PAGES;
        if (mincore((char *)block + at * page, some * page, there))
            break;
        for (size_t i = 0; i < some && kept * page < keep; i++) {
            kept += there[i] & 1;
            end = at + i + 1;
        }
    }
    block_empty((char *)block + end * page, bytes - end * page);
}
