#include "server/serve.h"

#include "catalog/builtin.h"

#include <sys/mman.h>

void serve(const struct api_request *rq, struct api_response *ret)
{
    struct api_needs needs;
    struct api_config config = {0};
    const struct builtin *found;

    api_needs(rq, &needs);
    found = needs.model ? builtin_find(needs.model) : NULL;
    if (found)
        config = (struct api_config){needs.model, found->text, found->bytes, "builtin"};
    api_answer(rq, &config, found ? 1 : 0, ret);
}

void *block_new(size_t bytes)
{
    void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return block == MAP_FAILED ? NULL : block;
}

void block_free(void *block, size_t bytes)
{
    if (block)
        (void)munmap(block, bytes);
}

void block_trim(void *block, size_t keep, size_t bytes)
{
    (void)madvise((char *)block + keep, bytes - keep, MADV_DONTNEED);
}
