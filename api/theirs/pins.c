/*
 * pins.c - the releases that a tool's own requirements install beside it: where a file of it is read they stand for what `stack` leaves out.
 *
 * Source    Requires-Dist of the wheels' METADATA: axolotl 0.19.0 (2026-09-10), ms_swift 4.6.0 (2026-10-13), oumi 0.9 (2026-09-16), llamafactory 0.9.5;
 *           open-instruct e6c3044a (2026-08-20): uv.lock; all read on 2026-11-27. trl 1.16.0 (2026-10-15) has no bound above.
 */
#include "api/theirs/theirs.h"

#include "stack/release.h"

#include <stddef.h>
#include <stdio.h>

/* The lowest and the highest release that is allowed; the highest is what pip takes. from NULL: no bound below. */
static const struct pin {
    enum tool tool;
    enum package package;
    size_t member;
    const char *from, *to;
} pins[] = {
#define PIN(tool_, package_, member_, from_, to_) {TOOL_##tool_, PACKAGE_##package_, offsetof(struct stack_request, member_), from_, to_}
    PIN(AXOLOTL, TORCH, torch, "2.11", "2.13"),
    PIN(AXOLOTL, TRANSFORMERS, transformers, "5.16", "5.16"),
    PIN(AXOLOTL, PEFT, peft, "0.20", "0.20"),
    PIN(AXOLOTL, ACCELERATE, accelerate, "1.13", "1.13"),
    PIN(AXOLOTL, BITSANDBYTES, bitsandbytes, "0.50", "0.50"),
    PIN(AXOLOTL, DEEPSPEED, deepspeed, "0.18", "0.18"),
    PIN(AXOLOTL, LIGER, liger, "0.8", "0.8"),
    PIN(LLAMA_FACTORY, TRANSFORMERS, transformers, "4.55", "5.6"),
    PIN(LLAMA_FACTORY, PEFT, peft, "0.18", "0.18"),
    PIN(LLAMA_FACTORY, ACCELERATE, accelerate, "1.3", "1.11"),
    PIN(MS_SWIFT, TRANSFORMERS, transformers, "4.33", "5.19"),
    PIN(MS_SWIFT, PEFT, peft, "0.11", "0.20"),
    PIN(OUMI, TORCH, torch, "2.6", "2.12"),
    PIN(OUMI, TRANSFORMERS, transformers, "4.57", "5.16"),
    PIN(OUMI, PEFT, peft, "0.17", "0.19"),
    PIN(OUMI, BITSANDBYTES, bitsandbytes, "0.47", "0.49"),
    PIN(OUMI, LIGER, liger, "0.6", "0.8"),
    PIN(OPEN_INSTRUCT, TORCH, torch, "2.10", "2.10"),
    PIN(OPEN_INSTRUCT, TRANSFORMERS, transformers, "5.4", "5.4"),
    PIN(OPEN_INSTRUCT, PEFT, peft, "0.18", "0.18"),
    PIN(OPEN_INSTRUCT, ACCELERATE, accelerate, "1.12", "1.12"),
    PIN(OPEN_INSTRUCT, BITSANDBYTES, bitsandbytes, "0.49", "0.49"),
    PIN(OPEN_INSTRUCT, DEEPSPEED, deepspeed, "0.18", "0.18"),
    PIN(OPEN_INSTRUCT, LIGER, liger, "0.7", "0.7"),
#undef PIN
};

static const char **named(struct stack_request *s, const struct pin *p)
{
    return (const char **)(void *)((char *)s + p->member);
}

/* A release that is no version is refused where the stack is read. */
static bool allows(const struct pin *p, const char *text)
{
    release have, from, to;

    return !release_parse(text, &have) || !release_parse(p->from, &from) || !release_parse(p->to, &to) || (have >= from && have <= to);
}

void theirs_take_releases(struct estimate *e)
{
    const struct framework_config_request *f = &e->rq.framework_config;
    int tool = f->text && f->framework.n ? tool_words[f->framework.at[0]].value : WORD_UNMODELLED;
    char text[256];
    size_t n = 0;

    for (size_t i = 0; i < sizeof pins / sizeof *pins; i++) {
        const struct pin *p = &pins[i];
        const char *said = *named(&e->rq.stack, p);

        if ((int)p->tool == tool && said && !allows(p, said)) {
            note(&e->warnings, "stack.%s %.24s: %s requires %s to %s; with this one another release of it runs, and what stack leaves out goes by its date",
                 package_name(p->package), said, theirs_tool_source(p->tool), p->from, p->to);
            return;
        }
    }
    for (size_t i = 0; i < sizeof pins / sizeof *pins; i++) {
        const struct pin *p = &pins[i];
        const char **said = named(&e->rq.stack, p);

        if ((int)p->tool != tool || *said)
            continue;
        *said = p->to;
        e->required |= PACKAGE_BIT(p->package);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s %s", n ? ", " : "", package_name(p->package), p->to);
    }
    if (n)
        note(&e->assumptions, "stack: %s, the newest that %s's own requirements allow; stack says otherwise", text,
             theirs_tool_source((enum tool)tool));
}
