/* All ways through a pattern at once: the set of places that are reached, a character at a time. */
#include "tuning/pattern.h"

#include "tuning/pattern_code.h"

#include <string.h>

struct matching {
    const struct pattern *p;
    const char *text;
    int n;
    unsigned steps, depth;
    bool exhausted;
};

enum { LOOK_DEPTH = 8 };

struct places {
    uint32_t n;
    uint16_t v[PATTERN_MAX_CODE + 1];
    uint32_t seen[PATTERN_MAX_CODE / 32 + 1];
};

static void places_clear(struct places *s)
{
    s->n = 0;
    memset(s->seen, 0, sizeof s->seen);
}

static void places_add(struct places *s, int pc)
{
    uint32_t bit = UINT32_C(1) << (pc & 31);

    if (s->seen[pc >> 5] & bit)
        return;
    s->seen[pc >> 5] |= bit;
    s->v[s->n++] = (uint16_t)pc;
}

static bool runs(struct matching *m, int pc, int at, int end);

static bool is_edge(const struct matching *m, int at)
{
    bool before = at > 0 && pattern_is_word((unsigned char)m->text[at - 1]),
         after = at < m->n && pattern_is_word((unsigned char)m->text[at]);

    return before != after;
}

/* end -2: anywhere. */
static bool looks(struct matching *m, int pc, int at)
{
    const struct pattern_code *c = &m->p->code[pc];
    bool found = c->b < 0 ? runs(m, pc + 1, at, -2) : at >= c->b && runs(m, pc + 1, at - c->b, at);

    return found == (c->op == PATTERN_LOOK);
}

/* Whatever is reached from a place without a character. True: the end of the pattern is among it. */
static bool follow(struct matching *m, struct places *s, int at, int end)
{
    bool matched = false;

    for (uint32_t i = 0; i < s->n && !m->exhausted; i++) { /* s grows on the way */
        int pc = s->v[i];
        const struct pattern_code *c = &m->p->code[pc];
        bool on = false;

        m->exhausted = ++m->steps > PATTERN_MAX_STEPS;
        switch ((enum pattern_op)c->op) {
        case PATTERN_MATCH:
            matched |= end == -2 || at == end;
            break;
        case PATTERN_SET:
            break;
        case PATTERN_SPLIT:
            places_add(s, pc + c->b);
            places_add(s, pc + c->a);
            break;
        case PATTERN_JUMP:
            places_add(s, pc + c->a);
            break;
        case PATTERN_BEGIN:
            on = at == 0;
            break;
        case PATTERN_END:
            on = at == m->n;
            break;
        case PATTERN_EDGE:
        case PATTERN_NO_EDGE:
            on = is_edge(m, at) == (c->op == PATTERN_EDGE);
            break;
        case PATTERN_LOOK:
        case PATTERN_LOOK_NOT:
            if (looks(m, pc, at))
                places_add(s, pc + c->a);
            break;
        }
        if (on)
            places_add(s, pc + 1);
    }
    return matched;
}

static bool runs(struct matching *m, int pc, int at, int end)
{
    struct places sets[2], *now = &sets[0], *next = &sets[1], *other;
    bool matched;

    if (m->depth == LOOK_DEPTH) {
        m->exhausted = true;
        return false;
    }
    m->depth++;
    places_clear(now);
    places_add(now, pc);
    for (;; at++) {
        matched = follow(m, now, at, end);
        if (matched || at >= m->n || !now->n || m->exhausted)
            break;
        places_clear(next);
        for (uint32_t i = 0; i < now->n; i++) {
            const struct pattern_code *c = &m->p->code[now->v[i]];

            if (c->op == PATTERN_SET && pattern_has(&m->p->sets[c->a], (unsigned char)m->text[at]))
                places_add(next, now->v[i] + 1);
        }
        other = now;
        now = next;
        next = other;
    }
    m->depth--;
    return matched;
}

bool pattern_matches(const struct pattern *p, const char *name, struct pattern_effort *effort)
{
    struct matching m = {.p = p, .text = name, .n = (int)strlen(name), .exhausted = effort->exhausted || effort->steps > PATTERN_ALL_STEPS};
    bool ret = !m.exhausted && runs(&m, 0, 0, m.n);

    effort->steps += m.steps;
    effort->exhausted |= m.exhausted;
    return ret && !m.exhausted;
}
