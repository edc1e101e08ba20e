/* core/torch/alloc: PyTorch's caching allocator, rule by rule, against tapes of the real one, and by its laws. */
#include "base/budget.h"
#include "tests/support/alloc_tape.h"
#include "tests/support/unit.h"

static unsigned char block[4 << 20];

static struct torch_alloc *alloc_new(struct torch_alloc_options options)
{
    struct torch_alloc *t = NULL;
    struct arena a;
    struct err err;

    arena_init(&a, block, sizeof block);
    ck_assert_int_eq(torch_alloc_new(&a, &options, &t, &err), ERR_OK);
    return t;
}

/* Rule by rule ------------------------------------------------------------------------------------------------------------
 *
 *   +h:N@s  a birth on stream s (0)    !h:N@s  one that is refused    -h  a death    xh  another stream reads h
 *   th  it is h seconds now    ~h:N  a death; the streams have passed after N seconds
 *   m  a CUDA event is recorded    w  the host waits for it    y  the host waits for all streams    e  empty_cache    z  reset_peaks
 *   what=N is then what the allocator says: a allocated, v active, r reserved, q requested, A V R Q their peaks, s S slack and its
 *   peak, n retries, o oom, 0..9 the block of that handle. Sizes end in M for MiB.
 * tests/data/alloc/make_streams.py plays these rows on the real allocator, those without times.
 */
enum mode { PLAIN, EXPANDABLE = 1, LAGGING = 2, TIMED = 4 };

static const struct {
    const char *name;
    int mode;
    const char *capacity, *script;
} rule[] = {
    {"512 B are the smallest block", PLAIN, "0", "+0:1 a=512 q=1 +1:512 a=1024 +2:513 a=2048 q=1026 0=512 2=1024 r=2M"},
    {"up to 1 MiB is small", PLAIN, "0", "+0:1M r=2M +1:1M r=2M a=2M"},
    {"one byte over 1 MiB is large", PLAIN, "0", "+0:1048577 0=1049088 r=20M"},
    {"pools share nothing", PLAIN, "0", "+0:2M r=20M +1:512 r=22M -0 +2:1M r=22M +3:1M r=24M"},
    {"under 10 MiB: a segment of 20 MiB", PLAIN, "0", "+0:10485248 r=20M"},
    {"10 MiB less a byte are 10 MiB when rounded", PLAIN, "0", "+0:10485759 r=10M 0=10M"},
    {"from 10 MiB: rounded up to 2 MiB", PLAIN, "0", "+0:10M r=10M +1:10485761 r=22M +2:31M r=54M"},
    {"large: a rest of 1 MiB is not split off", PLAIN, "0", "+0:11M r=12M 0=12M a=12M q=11M s=1M -0 a=0 s=0 S=1M r=12M"},
    {"large: a rest over 1 MiB is", PLAIN, "0", "+0:11533824 0=11533824 s=0 +1:1048577 r=12M +2:1048577 r=32M"},
    {"small: a rest of 512 B is split off", PLAIN, "0", "+0:1M +1:1048064 1=1048064 r=2M +2:1 2=512 r=2M a=2M +3:1 r=4M"},
    {"a freed block merges with both neighbours", PLAIN, "0", "+0:5M +1:5M +2:5M r=20M -0 -2 -1 +3:20M r=20M 3=20M"},
    {"with the lower one", PLAIN, "0", "+0:5M +1:5M +2:9M r=20M -0 -1 +3:10M r=20M"},
    {"with the upper one", PLAIN, "0", "+0:5M +1:5M +2:9M r=20M -1 -0 +3:10M r=20M"},
    {"not over the border of a segment", PLAIN, "0", "+0:10M +1:10M r=20M -0 -1 +2:20M r=40M"},
    {"best fit: the smallest", PLAIN, "0", "+0:4M +1:2M +2:3M +3:11M r=20M -0 -2 +4:3M +5:4M r=20M a=20M"},
    {"best fit: the lowest among equals", PLAIN, "0", "+0:3M +1:2M +2:3M +3:9M +6:3M r=20M -0 -2 +4:3M -3 +5:12M r=20M a=20M"},
    {"a new segment lies above the old ones", PLAIN, "0", "+0:10M +1:10M -1 -0 +2:8M -1 +3:10M r=20M +4:2M r=20M"},
    {"empty_cache gives wholly free segments back", PLAIN, "0", "+0:10M +1:2M +2:2M +3:512 -0 -1 e r=22M -2 e r=2M -3 e r=0 +4:10M r=10M"},
    {"reset_peaks", PLAIN, "0", "+0:10M +1:512 -0 A=10486272 R=12M z A=512 R=12M Q=512 e z R=2M"},
    {"full: the cache is released, then one retry", PLAIN, "60M", "+0:20M +1:20M -0 +2:30M n=1 o=0 r=50M R=50M"},
    {"full: both pools are released", PLAIN, "22M", "+0:1M +1:1M -0 -1 r=2M +2:22M n=1 r=22M"},
    {"full: a segment in use stays", PLAIN, "40M", "+0:6M +1:6M +2:20M -0 !3:10M n=1 o=1 r=40M a=26M +4:6M a=32M r=40M"},
    {"refused, then room", PLAIN, "40M", "+0:20M +1:20M !2:2M n=1 o=1 a=40M 2=0 -0 +2:2M a=22M r=40M n=1"},
    {"the limit itself may be reached", PLAIN, "20M", "+0:20M n=0 o=0 r=20M"},
    {"no address space is that large", PLAIN, "0", "!0:18446744073709551615 o=1 !1:281474976710656 a=0 r=0"},

    {"expandable: pages of 2 and 20 MiB", EXPANDABLE, "0", "+0:1 r=2M +1:2M r=22M +2:50M r=62M +3:1M r=62M +4:1M r=64M"},
    {"expandable: pages are added to a free end", EXPANDABLE, "0", "+0:15M r=20M +1:10M r=40M +2:15M r=40M a=40M"},
    {"expandable: every rest of 512 B is split off", EXPANDABLE, "0", "+0:20M -0 +1:20970496 1=20970496 s=0 r=20M -1 +2:20971008 s=0 r=20M"},
    {"expandable: a growable end counts as large as it could grow", EXPANDABLE, "0", "+0:6M +1:9M -0 r=20M +2:4M r=20M +3:25M r=40M"},
    {"expandable: the end is used when nothing else fits", EXPANDABLE, "0", "+0:3M +1:12M -0 +2:4M r=20M +3:20M r=40M"},
    {"expandable: empty_cache unmaps whole pages", EXPANDABLE, "0", "+0:15M +1:15M -0 e r=40M -1 e r=0"},
    {"expandable: what remains of a page is used again", EXPANDABLE, "0", "+0:30M +1:5M r=40M -0 e r=20M +2:10M r=20M +3:5M r=20M"},
    {"expandable: a hole is filled before the end grows", EXPANDABLE, "0", "+0:20M +1:20M -0 e r=20M +2:15M r=40M +3:25M r=80M"},
    {"expandable: too small a hole is passed over", EXPANDABLE, "0", "+0:20M +1:20M +2:20M -0 e r=40M +3:21M r=80M +4:19M r=80M"},
    {"expandable: a hole and the free block below it", EXPANDABLE, "0", "+0:10M +1:10M +2:20M +3:20M r=60M -2 e r=40M -1 +4:25M r=60M +5:5M r=60M"},
    {"expandable: a filled hole joins the free block above", EXPANDABLE, "0", "+0:20M +1:10M +2:10M -0 e r=20M -1 +3:15M r=40M +4:15M r=40M"},
    {"expandable: a gap is a hole and what is free above it", EXPANDABLE, "0", "+0:20M +1:10M +2:10M -0 e r=20M -1 +3:25M r=40M +4:5M r=40M"},
    {"expandable: all holes of a gap are filled", EXPANDABLE, "0", "+0:20M +1:10M +2:30M +3:20M -0 -2 e r=40M -1 +4:55M r=80M"},
    {"expandable: neighbouring holes are one", EXPANDABLE, "0", "+0:20M +1:20M +2:20M -0 e -1 e r=20M +3:40M r=60M +4:20M r=80M"},
    {"expandable: holes join downwards and upwards", EXPANDABLE, "0", "+0:20M +1:20M +2:20M +3:20M -0 e -2 e -1 e r=20M +4:60M r=80M"},
    {"expandable: full", EXPANDABLE, "60M", "+0:20M +1:20M -0 +2:40M n=1 r=60M o=0 !3:2M n=2 o=1 r=60M"},
    {"expandable: full, small pages", EXPANDABLE, "24M", "+0:1M +1:1M +2:1M r=4M -0 -1 +3:20M r=24M n=0 !4:20M n=1 r=22M"},

    {"a block belongs to its stream", PLAIN, "0", "+0:5M@1 r=20M -0 +1:5M@2 r=40M +2:5M@1 r=40M -1 -2 +3:15M@2 r=40M +4:512 r=42M +5:512@1 r=44M"},
    {"best fit looks into its stream alone", PLAIN, "0", "+0:12M@1 +1:14M@0 +2:13M@2 -0 -1 -2 +3:11M@0 r=40M +4:11M@3 r=52M +5:11M@2 r=52M"},
    {"full: segments of all streams are released", PLAIN, "60M", "+0:20M@1 +1:20M@2 +2:512@3 -0 -1 -2 +3:50M n=1 r=50M"},
    {"full: not those in use on another stream", PLAIN, "40M", "+0:5M@1 +1:20M -1 !2:30M n=1 o=1 r=20M a=5M"},
    {"expandable: a segment for each stream", EXPANDABLE, "0", "+0:5M@1 +1:5M@2 r=40M -0 +2:15M@2 r=40M +3:5M@2 r=60M +4:20M@1 r=60M +5:1@1 r=62M"},
    {"expandable: the end of one stream grows", EXPANDABLE, "0", "+0:15M@1 +1:15M@2 +2:10M@1 r=60M +3:15M@1 r=60M +4:25M@2 r=80M"},
    {"expandable: pages of all streams are released", EXPANDABLE, "60M", "+0:20M@1 +1:15M@2 -0 +2:5M@3 r=60M -2 +3:40M@2 n=1 r=60M"},

    {"never behind: another stream has it until the next birth", PLAIN, "0", "+0:5M x0 -0 a=0 v=5M q=5M +1:5M a=5M v=5M V=5M r=20M q=5M"},
    {"never behind: nothing waits for a wait", PLAIN, "0", "+0:5M@1 +1:5M x0 -0 v=10M y v=10M +2:512@2 v=5243392 V=10M"},
    {"never behind: empty_cache takes what waits", PLAIN, "0", "+0:5M@1 x0 -0 v=5M r=20M e v=0 r=0 q=0"},
    {"never behind, expandable", EXPANDABLE, "0", "+0:5M@1 x0 -0 v=5M +1:20M@1 v=20M r=20M A=20M V=20M"},

    {"always behind: active until the host waits", LAGGING, "0", "+0:5M x0 -0 a=0 v=5M +1:5M a=5M v=10M +2:5M@1 v=15M r=40M V=15M A=10M Q=15M"},
    {"always behind: free at the first birth after the wait", LAGGING, "0", "+0:20M x0 -0 y v=20M r=20M +1:20M v=20M r=20M V=20M"},
    {"always behind: what nobody else reads is free at once", LAGGING, "0", "+0:20M@1 -0 v=0 +1:20M@1 v=20M r=20M"},
    {"always behind: a block crosses for one life", LAGGING, "0", "+0:20M x0 -0 y +1:20M -1 v=0 +2:20M r=20M v=20M"},
    {"always behind: an event covers what was freed before it", LAGGING, "0",
     "+0:20M +1:30M x0 x1 -0 m -1 w v=50M +2:20M r=50M v=50M +3:30M r=80M v=80M y +4:30M r=80M v=80M"},
    {"always behind: an event that is older frees nothing", LAGGING, "0", "m +0:20M x0 -0 w +1:20M r=40M v=40M"},
    {"always behind: empty_cache waits", LAGGING, "0", "+0:20M@1 x0 -0 e v=0 r=0 +1:20M r=20M v=20M V=20M"},
    {"always behind: waiting blocks are no neighbours", LAGGING, "0", "+0:5M +1:5M +2:5M +3:5M x1 -0 -1 -2 +4:10M r=30M v=20M y +5:15M r=30M v=30M"},
    {"always behind: a full device waits, then retries", LAGGING, "40M", "+0:20M@1 +1:20M x0 x1 -0 -1 +2:40M n=1 r=40M v=40M o=0"},
    {"always behind: what it waited for is not searched again", LAGGING, "40M", "+0:10M +1:20M +2:10M x1 -1 +3:20M n=1 r=40M o=0"},
    {"always behind: no room in what it waited for", LAGGING, "40M", "+0:5M +1:14M x1 +2:20M -1 v=40M a=25M !3:14M n=1 o=1 v=25M r=40M +4:14M r=40M"},
    {"always behind: reset_peaks", LAGGING, "0", "+0:20M x0 +1:30M -0 -1 V=50M z V=20M A=0 Q=20M y +2:512 z V=512 v=512"},
    {"always behind, expandable: active until the host waits", EXPANDABLE | LAGGING, "0", "+0:15M x0 -0 +1:15M r=40M v=30M y +2:15M r=40M v=30M"},
    {"always behind, expandable: waiting blocks are no way to grow", EXPANDABLE | LAGGING, "0", "+0:20M x0 -0 +1:30M r=60M v=50M y +2:30M r=80M v=60M"},
    {"always behind, expandable: empty_cache waits", EXPANDABLE | LAGGING, "0", "+0:15M +1:5M x0 -0 e r=20M v=5M -1 e r=0"},
    {"always behind, expandable: full", EXPANDABLE | LAGGING, "40M", "+0:20M@1 x0 -0 +1:40M n=1 r=40M v=40M"},

    {"as told: free at the first birth after its time", TIMED, "0", "+0:20M x0 ~0:5 v=20M a=0 t4 +1:20M v=40M r=40M t5 v=40M +2:20M v=40M r=40M"},
    {"as told: each at its time", TIMED, "0",
     "+0:20M +1:30M x0 x1 ~0:9 ~1:3 t5 +2:30M v=50M r=50M +3:20M v=70M r=70M t9 +4:20M v=70M r=70M A=70M V=70M"},
    {"as told: what nobody else reads is free at once", TIMED, "0", "+0:20M ~0:9 v=0 +1:20M v=20M r=20M"},
    {"as told: without a time it has passed", TIMED, "0", "t3 +0:20M x0 -0 +1:20M v=20M r=20M"},
    {"as told: empty_cache waits", TIMED, "0", "+0:20M x0 ~0:9 e v=0 r=0 +1:20M v=20M r=20M"},
    {"as told: a full device waits, then retries", TIMED, "40M", "+0:20M x0 ~0:9 +1:40M n=1 r=40M v=40M o=0"},
    {"as told, expandable: waiting blocks are no way to grow", EXPANDABLE | TIMED, "0", "+0:20M x0 ~0:2 +1:30M r=60M v=50M t2 +2:30M r=80M v=60M"},
};

static uint64_t number(const char **s)
{
    char *end;
    uint64_t n = strtoull(*s, &end, 10);

    if (*end == 'M') {
        n <<= 20;
        end++;
    }
    *s = end;
    return n;
}

static uint64_t said(const struct torch_alloc *t, char what)
{
    struct torch_alloc_stats s = torch_alloc_stats(t);

    switch (what) {
    case 'a': return s.allocated_bytes;
    case 'A': return s.allocated_peak_bytes;
    case 'v': return s.active_bytes;
    case 'V': return s.active_peak_bytes;
    case 'r': return s.reserved_bytes;
    case 'R': return s.reserved_peak_bytes;
    case 'q': return s.requested_bytes;
    case 'Q': return s.requested_peak_bytes;
    case 's': return s.slack_bytes;
    case 'S': return s.slack_peak_bytes;
    case 'n': return s.retries;
    case 'o': return s.oom;
    default: return torch_alloc_block_bytes(t, (uint32_t)(what - '0'));
    }
}

/* A verb that is no question; s stands behind it. */
static void act(struct torch_alloc *t, char verb, const char **s, uint32_t *mark)
{
    uint32_t handle = 0;

    if (strchr("-x~t", verb))
        handle = (uint32_t)number(s);
    switch (verb) {
    case '-': torch_alloc_give(t, handle); break;
    case 'x': torch_alloc_cross(t, handle); break;
    case 'm': *mark = torch_alloc_mark(t); break;
    case 'w': torch_alloc_wait(t, *mark); break;
    case 'y': torch_alloc_wait(t, torch_alloc_mark(t)); break;
    case 't': torch_alloc_time(t, handle); break;
    case '~':
        ++*s;
        torch_alloc_give_until(t, handle, (double)number(s));
        break;
    case 'e': torch_alloc_empty_cache(t); break;
    default: torch_alloc_reset_peaks(t);
    }
}

static bool born(struct torch_alloc *t, const char **s)
{
    uint32_t handle = (uint32_t)number(s);
    uint64_t bytes;

    ++*s;
    bytes = number(s);
    if (**s != '@')
        return torch_alloc_take(t, handle, bytes, 0);
    ++*s;
    return torch_alloc_take(t, handle, bytes, (unsigned)number(s));
}

static enum torch_lag lag_of(int mode)
{
    return mode & LAGGING ? TORCH_LAG_ALWAYS : mode & TIMED ? TORCH_LAG_TIMED : TORCH_LAG_NEVER;
}

START_TEST(follows_the_rule)
{
    const char *capacity = rule[_i].capacity;
    struct torch_alloc *t = alloc_new((struct torch_alloc_options){rule[_i].mode & EXPANDABLE, number(&capacity), 10, 0, lag_of(rule[_i].mode), false});
    uint32_t mark = 0;

    for (const char *s = rule[_i].script; *s; s += *s == ' ') {
        const char *from = s;
        char verb = *s++;

        if (*s == '=') {
            s++;
            uint64_t want = number(&s), is = said(t, verb);
            ck_assert_msg(is == want, "%s: %" PRIu64 " at '%s'", rule[_i].name, is, from);
        } else if (verb == '+' || verb == '!') {
            ck_assert_msg(born(t, &s) == (verb == '+'), "%s: at '%s'", rule[_i].name, from);
        } else {
            act(t, verb, &s, &mark);
        }
    }
    ck_assert_int_eq(torch_alloc_status(t, NULL), ERR_OK);
}
END_TEST

/* Tapes ------------------------------------------------------------------------------------------------------------------ */

static const char *const tape_name[] = {
    "random-1-small", "random-2-large", "random-3-mixed", "random-4-few",  "random-5-mixed", "random-6-large",
    "llama-4l",       "gpt2-3l-fp32",   "opt-3l-sgd",     "llama-3l-lora", "bloom-2l-mixed", "llama-32l",
    "streams-11-mixed", "streams-12-large", "streams-13-few",
};

static void tape_open(const char *name, struct tape *tape)
{
    char path[128];

    snprintf(path, sizeof path, "tests/data/alloc/%s.tape", name);
    ck_assert_msg(tape_read(path, tape), "%s is not a tape", path);
}

static uint64_t mix(uint64_t hash, uint64_t value) { return (hash ^ value) * UINT64_C(0x100000001b3); }

/* Replays it all; the same hash as make_tapes.py and make_streams.py. */
static uint64_t replay(struct torch_alloc *t, const struct tape *tape, uint32_t *ret_refused)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    uint32_t mark = 0;

    *ret_refused = 0;
    for (uint32_t i = 0; i < tape->n_events; i++) {
        *ret_refused += !tape_step(t, &tape->events[i], &mark);

        struct torch_alloc_stats s = torch_alloc_stats(t);
        hash = mix(mix(hash, s.allocated_bytes), s.reserved_bytes);
        if (s.active_bytes != s.allocated_bytes)
            hash = mix(hash, s.active_bytes);
    }
    return hash;
}

START_TEST(equals_the_real_one)
{
    struct tape tape;

    tape_open(tape_name[_i], &tape);
    for (const struct tape_expect *x = tape.expects; x < tape.expects + tape.n_expects; x++) {
        struct torch_alloc *t = alloc_new((struct torch_alloc_options){x->expandable, x->capacity_bytes, tape.slots, 0, lag_of(x->lagging ? LAGGING : PLAIN), false});
        uint32_t refused;
        uint64_t hash = replay(t, &tape, &refused);
        struct torch_alloc_stats s = torch_alloc_stats(t);

        ck_assert_int_eq(torch_alloc_status(t, NULL), ERR_OK);
        ck_assert_uint_eq(s.allocated_peak_bytes, x->allocated_peak_bytes);
        ck_assert_uint_eq(s.reserved_peak_bytes, x->reserved_peak_bytes);
        ck_assert_uint_eq(s.requested_peak_bytes, x->requested_peak_bytes);
        ck_assert_uint_eq(s.retries, x->retries);
        ck_assert_uint_eq(refused, x->refused);
        ck_assert_int_eq(s.oom, x->refused > 0);
        ck_assert_msg(hash == x->hash, "%s: the peaks agree, a moment between them does not", tape_name[_i]);
    }
    tape_release(&tape);
}
END_TEST

/* Laws ------------------------------------------------------------------------------------------------------------------- */

enum { SLOTS = 150, EVENTS = 4000 };

static uint64_t dice(uint64_t *state, uint64_t sides)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (*state >> 16) % sides;
}

/* Sizes of every order of magnitude from one byte to 64 MiB. */
static uint64_t any_size(uint64_t *state) { return 1 + dice(state, UINT64_C(1) << (1 + dice(state, 26))); }

static void check_laws(const struct torch_alloc *t, const uint64_t *live, const struct torch_alloc_options *o)
{
    struct torch_alloc_stats s = torch_alloc_stats(t);
    uint64_t rounded = 0, requested = 0, blocks = 0;

    for (uint32_t i = 0; i < SLOTS; i++) {
        requested += live[i];
        rounded += live[i] ? torch_alloc_round(live[i]) : 0;
        blocks += torch_alloc_block_bytes(t, i);
    }
    ck_assert_uint_eq(s.requested_bytes, requested);
    ck_assert_uint_eq(s.allocated_bytes, blocks);
    ck_assert_uint_eq(s.allocated_bytes, rounded + s.slack_bytes);
    ck_assert_uint_ge(s.reserved_bytes, s.allocated_bytes);
    ck_assert_uint_eq(s.reserved_bytes % (2 << 20), 0);
    ck_assert_uint_ge(s.allocated_peak_bytes, s.allocated_bytes);
    ck_assert_uint_ge(s.reserved_peak_bytes, s.reserved_bytes);
    ck_assert_uint_ge(s.slack_peak_bytes, s.slack_bytes);
    if (o->capacity_bytes)
        ck_assert_uint_le(s.reserved_peak_bytes, o->capacity_bytes);
    if (o->expandable)
        ck_assert_uint_eq(s.slack_bytes, 0); /* every remainder is split off */
}

/* One random life; the hash of all its moments. At its end everything is given back, to the last byte. */
static uint64_t live_a_life(uint64_t seed, const struct torch_alloc_options *o)
{
    struct torch_alloc *t = alloc_new(*o);
    uint64_t live[SLOTS] = {0}, hash = 0, state = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;

    for (int i = 0; i < EVENTS; i++) {
        uint32_t slot = (uint32_t)dice(&state, SLOTS);

        if (dice(&state, 500) == 0) {
            torch_alloc_empty_cache(t);
        } else if (live[slot]) {
            torch_alloc_give(t, slot);
            live[slot] = 0;
        } else {
            uint64_t bytes = any_size(&state);

            live[slot] = torch_alloc_take(t, slot, bytes, 0) ? bytes : 0;
        }
        check_laws(t, live, o);
        hash = mix(mix(hash, torch_alloc_stats(t).allocated_bytes), torch_alloc_stats(t).reserved_bytes);
    }
    ck_assert(!torch_alloc_stats(t).oom || torch_alloc_stats(t).retries > 0);
    for (uint32_t i = 0; i < SLOTS; i++)
        torch_alloc_give(t, i);
    ck_assert_uint_eq(torch_alloc_stats(t).allocated_bytes, 0);
    ck_assert_uint_eq(torch_alloc_stats(t).slack_bytes, 0);
    torch_alloc_empty_cache(t);
    ck_assert_uint_eq(torch_alloc_stats(t).reserved_bytes, 0);
    ck_assert_int_eq(torch_alloc_status(t, NULL), ERR_OK);
    return hash;
}

static const struct torch_alloc_options life[] = {
    {false, 0, SLOTS, 0, TORCH_LAG_NEVER, false},
    {true, 0, SLOTS, 0, TORCH_LAG_NEVER, false},
    {false, UINT64_C(200) << 20, SLOTS, 0, TORCH_LAG_NEVER, false},
    {true, UINT64_C(200) << 20, SLOTS, 0, TORCH_LAG_NEVER, false},
    {false, 0, SLOTS, 0, TORCH_LAG_NEVER, true},
    {false, UINT64_C(200) << 20, SLOTS, 0, TORCH_LAG_NEVER, true},
};

#define MIB(n) ((uint64_t)(n) << 20)

/* Two segments that are alike, both free: the one that lies lower is taken. */
START_TEST(lays_segments_as_the_driver_does)
{
    static const struct {
        const char *name;
        bool fall;
        uint64_t asked[4];
        int lower; /* of the last two */
    } rows[] = {
        {"rising: the earlier", false, {0, 0, MIB(40), MIB(40)}, 2},
        {"falling: the later", true, {0, 0, MIB(40), MIB(40)}, 3},
        {"what is left of a unit is filled: 20 MiB beside 44 lie above the 20 of a unit of their own", true, {MIB(44), 0, MIB(20), MIB(20)}, 3},
        {"the smallest gap that has room, above: the 12 beside 20, then the 14 beside 18", true, {MIB(20), MIB(18), MIB(12), MIB(12)}, 3},
        {"the smallest gap that has room, below: the 12 beside 20, then the 14 beside 18", true, {MIB(18), MIB(20), MIB(12), MIB(14)}, 2},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct torch_alloc *t = alloc_new((struct torch_alloc_options){.max_live = 4, .addresses_fall = rows[i].fall});
        uint64_t at[4];

        for (uint32_t k = 0; k < 4; k++)
            ck_assert(!rows[i].asked[k] || torch_alloc_take(t, k, rows[i].asked[k], 0));
        for (uint32_t k = 0; k < 4; k++)
            at[k] = torch_alloc_address(t, k);
        ck_assert_msg((at[2] < at[3] ? 2 : 3) == rows[i].lower, "%s", rows[i].name);
    }
}
END_TEST

/* 512 TiB, whichever way they are laid out: then nothing is born, no two blocks lie at one place, and what was given back is found again. */
START_TEST(ends_where_addresses_end)
{
    enum { MOST = 32 };
    struct torch_alloc *t = alloc_new((struct torch_alloc_options){.max_live = 2 * MOST, .addresses_fall = _i});

    for (uint32_t i = 0; i < 2 * MOST; i++)
        ck_assert_int_eq(torch_alloc_take(t, i, MIB(16) << 20, 0), i < MOST);
    ck_assert(torch_alloc_stats(t).oom);
    ck_assert_uint_eq(torch_alloc_stats(t).reserved_bytes, MOST * MIB(16) << 20);
    for (uint32_t i = 0; i < MOST; i++)
        for (uint32_t k = 0; k < i; k++)
            ck_assert_uint_ne(torch_alloc_address(t, i), torch_alloc_address(t, k));
    for (uint32_t i = 0; i < MOST; i += 2)
        torch_alloc_give(t, i);
    for (uint32_t i = 0; i < MOST; i += 2)
        ck_assert(torch_alloc_take(t, i, MIB(16) << 20, 0));
    ck_assert_int_eq(torch_alloc_status(t, NULL), ERR_OK);
}
END_TEST

START_TEST(keeps_its_laws)
{
    for (uint64_t seed = 1; seed <= 8; seed++)
        ck_assert_uint_eq(live_a_life(seed, &life[_i]), live_a_life(seed, &life[_i]));
}
END_TEST

static unsigned char other_block[sizeof block];

/* Leaves both as if it had been born and had died; 0 tells that nothing has happened yet. */
static void visit(struct torch_alloc *t, struct torch_alloc *twin, uint64_t bytes)
{
    uint64_t seen = torch_alloc_visit(t, bytes, 0);

    if (!seen && torch_alloc_take(t, SLOTS, bytes, 0))
        torch_alloc_give(t, SLOTS);
    if (!torch_alloc_take(twin, SLOTS, bytes, 0))
        return;
    if (seen)
        ck_assert_uint_eq(seen, torch_alloc_block_bytes(twin, SLOTS));
    torch_alloc_give(twin, SLOTS);
}

START_TEST(a_visit_is_a_birth_and_a_death)
{
    struct torch_alloc_options o = life[_i];
    struct torch_alloc *t, *twin = NULL;
    uint64_t state = 7;
    struct arena a;

    o.max_live = SLOTS + 1;
    t = alloc_new(o);
    arena_init(&a, other_block, sizeof other_block);
    ck_assert_int_eq(torch_alloc_new(&a, &o, &twin, NULL), ERR_OK);
    for (int i = 0; i < EVENTS; i++) {
        uint32_t slot = (uint32_t)dice(&state, SLOTS);
        uint64_t bytes = any_size(&state);
        struct torch_alloc_stats is, should;

        if (dice(&state, 3) == 0) {
            visit(t, twin, bytes);
        } else if (torch_alloc_block_bytes(t, slot)) {
            torch_alloc_give(t, slot);
            torch_alloc_give(twin, slot);
        } else {
            ck_assert(torch_alloc_take(t, slot, bytes, 0) == torch_alloc_take(twin, slot, bytes, 0));
        }
        is = torch_alloc_stats(t);
        should = torch_alloc_stats(twin);
        ck_assert_mem_eq(&is, &should, offsetof(struct torch_alloc_stats, oom));
        ck_assert(is.oom == should.oom);
    }
    ck_assert_int_eq(torch_alloc_status(t, NULL), ERR_OK);
}
END_TEST

/* Errors ----------------------------------------------------------------------------------------------------------------- */

/* Too few blocks: ERR_NOMEM and nothing moves; enough: the right answer. Nothing between. */
START_TEST(survives_any_number_of_blocks)
{
    struct tape tape;
    bool done = false;

    tape_open("random-5-mixed", &tape);
    for (uint32_t blocks = 1; blocks < 200; blocks++) {
        for (const struct tape_expect *x = tape.expects; x < tape.expects + tape.n_expects; x++) {
            struct torch_alloc *t = alloc_new((struct torch_alloc_options){x->expandable, x->capacity_bytes, tape.slots, blocks, lag_of(x->lagging ? LAGGING : PLAIN), false});
            struct err err = {0};
            uint32_t refused;
            uint64_t hash = replay(t, &tape, &refused);
            enum err_code rc = torch_alloc_status(t, &err);

            ck_assert_msg(rc == ERR_NOMEM || (rc == ERR_OK && hash == x->hash), "%u blocks: %s", blocks, err_slug(rc));
            done = rc == ERR_OK;
        }
    }
    ck_assert(done);
    tape_release(&tape);
}
END_TEST

START_TEST(survives_any_arena_size)
{
    const struct torch_alloc_options o = {true, 0, 16, 32, TORCH_LAG_NEVER, false};
    size_t room = 0;

    for (enum err_code rc = ERR_NOMEM; rc; room += 8) {
        struct torch_alloc *t = NULL;
        struct arena a;
        struct err err = {0};

        ck_assert_uint_lt(room, sizeof block);
        arena_init(&a, block, room);
        rc = torch_alloc_new(&a, &o, &t, &err);
        ck_assert(rc == ERR_NOMEM ? !t && err.code == ERR_NOMEM : rc == ERR_OK && torch_alloc_take(t, 15, 100, 0));
    }
    ck_assert_uint_gt(room, 1000);
}
END_TEST

/* Thousands of blocks wait, one of which passes at each birth: all of them are looked at each time. */
static enum err_code look_at_many(struct budget *budget, uint32_t births)
{
    enum { WAIT = 3000 };
    struct torch_alloc_options o = {.max_live = WAIT + 1, .lag = TORCH_LAG_TIMED};
    struct torch_alloc *t = NULL;
    struct arena a;
    struct err err = {0};

    arena_init(&a, block, sizeof block);
    a.budget = budget;
    ck_assert_int_eq(torch_alloc_new(&a, &o, &t, &err), ERR_OK);
    for (uint32_t i = 0; i < WAIT; i++)
        ck_assert(torch_alloc_take(t, i, 512, 0));
    for (uint32_t i = 0; i < WAIT; i++) {
        torch_alloc_cross(t, i);
        torch_alloc_give_until(t, i, 1 + i);
    }
    for (uint32_t i = 0; i < births; i++) {
        torch_alloc_time(t, 1 + i);
        if (!torch_alloc_take(t, WAIT, 512, 0))
            break;
        torch_alloc_give(t, WAIT);
    }
    return torch_alloc_status(t, &err);
}

START_TEST(counts_what_it_looks_at)
{
    struct budget few = {.limit_events = 4096}, enough = {.limit_events = 1000000}, none = {.limit_events = 1000000};

    ck_assert_int_eq(look_at_many(NULL, 2000), ERR_OK);
    ck_assert_int_eq(look_at_many(&none, 10), ERR_OK);
    ck_assert_uint_eq(none.events, 0);
    ck_assert_int_eq(look_at_many(&enough, 2000), ERR_OK);
    ck_assert_uint_gt(enough.events, 4096);
    ck_assert_int_eq(look_at_many(&few, 2000), ERR_BUDGET);
}
END_TEST

START_TEST(says_when_it_is_misused)
{
    struct torch_alloc *t = alloc_new((struct torch_alloc_options){.max_live = 4});
    struct err err = {0};

    torch_alloc_give(t, 3); /* holds nothing */
    ck_assert(torch_alloc_take(t, 3, 100, 0));
    ck_assert_int_eq(torch_alloc_status(t, &err), ERR_OK);
    ck_assert(!torch_alloc_take(t, 3, 100, 0));
    ck_assert_int_eq(torch_alloc_status(t, &err), ERR_INTERNAL);
    ck_assert(!torch_alloc_take(t, 2, 100, 0));
    ck_assert_uint_eq(torch_alloc_stats(t).allocated_bytes, 512);

    t = alloc_new((struct torch_alloc_options){.max_live = 4});
    ck_assert(!torch_alloc_take(t, 4, 100, 0));
    ck_assert_int_eq(torch_alloc_status(t, &err), ERR_INTERNAL);
    ck_assert_uint_eq(torch_alloc_block_bytes(t, 4), 0);
}
END_TEST

UNIT_TESTS("torch/alloc",
    unit_rows(follows_the_rule, rule);
    unit_rows(equals_the_real_one, tape_name);
    unit_test(lays_segments_as_the_driver_does);
    tcase_add_loop_test(unit_.tcase, ends_where_addresses_end, 0, 2); /* they rise, they fall */
    unit_rows(keeps_its_laws, life);
    unit_rows(a_visit_is_a_birth_and_a_death, life);
    unit_test(survives_any_number_of_blocks);
    unit_test(survives_any_arena_size);
    unit_test(counts_what_it_looks_at);
    unit_test(says_when_it_is_misused);
)
