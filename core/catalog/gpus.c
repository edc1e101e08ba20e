#include "catalog/gpus.h"

#include "base/err.h"
#include "base/name.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct gpu gpus[] = {
#include "gen/gpus.inc"
};

enum { N_GPUS = sizeof gpus / sizeof *gpus };

size_t gpu_count(void)
{
    return N_GPUS;
}

const struct gpu *gpu_at(size_t i)
{
    return i < N_GPUS ? &gpus[i] : NULL;
}

const struct gpu *gpu_find(const char *name)
{
    for (size_t i = 0; i < N_GPUS; i++)
        if (name_in_list(name, gpus[i].name) || (gpus[i].aliases && name_in_list(name, gpus[i].aliases)))
            return &gpus[i];
    return NULL;
}

bool gpu_capability(const char *text, unsigned *ret_major, unsigned *ret_minor)
{
    unsigned major = 0;
    size_t digits = strspn(text, "0123456789");

    if (digits < 1 || digits > 2 || text[digits] != '.' || text[digits + 1] < '0' || text[digits + 1] > '9' || text[digits + 2])
        return false;
    for (size_t i = 0; i < digits; i++)
        major = major * 10 + (unsigned)(text[i] - '0');
    *ret_major = major;
    *ret_minor = (unsigned)(text[digits + 1] - '0');
    return true;
}

unsigned gpu_threads_per_multiprocessor(unsigned cc_major, unsigned cc_minor)
{
    static const struct {
        unsigned capability, threads; /* major * 10 + minor */
    } table[] = {
        {50, 2048}, {60, 2048}, {70, 2048}, {75, 1024},  {80, 2048},  {86, 1536},  {87, 1536},
        {89, 1536}, {90, 2048}, {100, 2048}, {103, 2048}, {110, 1536}, {120, 1536}, {121, 1536},
    };
    unsigned threads = table[0].threads;

    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].capability <= cc_major * 10 + cc_minor)
            threads = table[i].threads;
    return threads;
}

uint64_t gpu_cache_bytes(unsigned cc_major, unsigned cc_minor, unsigned multiprocessors)
{
    static const struct {
        unsigned capability, multiprocessors, mib; /* from so many multiprocessors on */
    } table[] = {
        {60, 0, 4},   {70, 0, 6},   {75, 0, 4},   {75, 60, 6},  {80, 0, 40},  {86, 0, 3},   {86, 46, 4},   {86, 60, 6},   {86, 68, 5},  {86, 72, 6},
        {89, 0, 32},  {89, 46, 36}, {89, 56, 48}, {89, 76, 64}, {89, 100, 72}, {89, 142, 96}, {90, 0, 50}, {100, 0, 126}, {120, 0, 32}, {120, 84, 64}, {120, 100, 96},
    };
    unsigned mib = table[0].mib;

    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].capability <= cc_major * 10 + cc_minor && table[i].multiprocessors <= multiprocessors)
            mib = table[i].mib;
    return (uint64_t)mib << 20;
}

/* --- a row becomes a device ---------------------------------------------------------------------------------------------------- */

/* A sentence, for as many as there is room. */
PRINTF(2, 3) static void note(struct gpu_notes *notes, const char *fmt, ...)
{
    va_list args;

    if (notes->n == GPU_MAX_NOTES)
        return;
    va_start(args, fmt);
    (void)vsnprintf(notes->text[notes->n], sizeof notes->text[0], fmt, args);
    va_end(args);
    notes->n++;
}

/* tests/data/ops and tests/data/accuracy hold runs of these. */
bool gpu_traced(unsigned cc_major, unsigned cc_minor)
{
    static const unsigned traced[] = {80, 86, 89, 90, 100, 120};

    for (size_t i = 0; i < sizeof traced / sizeof *traced; i++)
        if (traced[i] == 10 * cc_major + cc_minor)
            return true;
    return false;
}

bool gpu_is_of_rocm(const struct gpu *gpu)
{
    return name_same(gpu->vendor, "AMD");
}

/* The compute capability whose kernels answer for this GPU; false where there are none. */
static bool kernels_of(const struct gpu *gpu, struct device *d, struct gpu_notes *notes)
{
    const char *cc = gpu->compute_capability;

    if (!cc)
        return false;
    if (gpu_capability(cc, &d->cc_major, &d->cc_minor)) {
        d->threads_per_multiprocessor = gpu_threads_per_multiprocessor(d->cc_major, d->cc_minor);
        d->untraced = !gpu_traced(d->cc_major, d->cc_minor);
        return true;
    }
    if (!gpu_is_of_rocm(gpu))
        return false;
    d->cc_major = 8;
    d->cc_minor = 0;
    d->untraced = true;
    d->threads_per_multiprocessor = 2048; /* hipDeviceProp_t::maxThreadsPerMultiProcessor of gfx9 */
    note(notes, "%s (%s) is answered with the kernels of compute capability 8.0: those of ROCm are not modelled", gpu->name, cc);
    return true;
}

bool gpu_is_consumer(const struct gpu *gpu)
{
    return strstr(gpu->aliases, "GeForce") || strstr(gpu->aliases, "Radeon");
}

static bool has_capability(const struct gpu *gpu, unsigned major, int minor)
{
    unsigned m, n;

    if (!gpu->compute_capability || !gpu_capability(gpu->compute_capability, &m, &n))
        return false;
    return m == major && (minor < 0 || n == (unsigned)minor);
}

/* Of the same capability (any minor version when `minor` < 0), the one with most multiprocessors: grids grow with them. */
static const struct gpu *largest_sister(unsigned major, int minor)
{
    const struct gpu *found = NULL;

    for (size_t i = 0; i < N_GPUS; i++)
        if (has_capability(&gpus[i], major, minor) && gpus[i].multiprocessors > (found ? found->multiprocessors : 0))
            found = &gpus[i];
    return found;
}

static unsigned multiprocessors_of(const struct gpu *gpu, const struct device *d, struct gpu_notes *notes)
{
    const struct gpu *sister;

    if (gpu->multiprocessors)
        return gpu->multiprocessors;
    sister = largest_sister(d->cc_major, (int)d->cc_minor);
    if (!sister)
        sister = largest_sister(d->cc_major, -1);
    if (!sister)
        return 0;
    note(notes, "no source gives the multiprocessors of %s: the %u of %s stand for them", gpu->name, sister->multiprocessors, sister->name);
    return sister->multiprocessors;
}

static uint64_t usable_bytes_of(const struct gpu *gpu, struct gpu_notes *notes)
{
    if (gpu->usable_bytes)
        return gpu->usable_bytes;
    if (gpu->memory_bytes) {
        note(notes, "no source gives what a program sees of the memory of %s: all %" PRIu64 " bytes stand for it", gpu->name,
             gpu->memory_bytes);
        return gpu->memory_bytes;
    }
    note(notes, "no source gives the bytes of %s: its %.0f GB are taken as billions", gpu->name, gpu->memory_gb_marketing);
    return (uint64_t)(gpu->memory_gb_marketing * 1e9);
}

void gpu_process(struct device *d)
{
    d->addresses_fall = d->cc_major == 9;
    d->context_bytes = (uint64_t)(d->cc_major == 9 ? GPU_CONTEXT_HOPPER_MIB : GPU_CONTEXT_MIB) << 20;
}

bool gpu_device(const struct gpu *gpu, struct device *ret, struct gpu_notes *ret_notes)
{
    struct gpu_notes notes = {0};
    struct device d = {0};

    if (!kernels_of(gpu, &d, &notes))
        return false;
    d.multiprocessors = multiprocessors_of(gpu, &d, &notes);
    d.usable_bytes = usable_bytes_of(gpu, &notes);
    if (!d.multiprocessors || !d.usable_bytes)
        return false;
    gpu_process(&d);
    if (d.addresses_fall)
        note(&notes, GPU_PROCESS_HOPPER, GPU_CONTEXT_HOPPER_MIB, gpu->name);
    else
        note(&notes, "a process holds %d MiB of %s before its first tensor: reported for CUDA 11.7 and later, no figure of this GPU alone",
             GPU_CONTEXT_MIB, gpu->name);
    *ret = d;
    *ret_notes = notes;
    return true;
}
