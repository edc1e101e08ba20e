/* A decoded struct back into JSON, by the table that read it. */
#include "api/decode/decode.h"

#include <string.h>

static void write_word(struct jsonw *w, const char *key, const struct word *word)
{
    if (!strcmp(word->name, "true") || !strcmp(word->name, "false"))
        jsonw_bool(w, key, word->name[0] == 't');
    else
        jsonw_str(w, key, word->name);
}

static void write_words(struct jsonw *w, const struct member *m, const struct words *v)
{
    if (!m->list || (v->n == 1 && m->min)) {
        write_word(w, m->key, &m->words[v->at[0]]);
        return;
    }
    jsonw_array(w, m->key);
    for (unsigned i = 0; i < v->n; i++)
        write_word(w, NULL, &m->words[v->at[i]]);
    jsonw_end(w);
}

static void write_strs(struct jsonw *w, const char *key, const struct strs *s)
{
    if (s->is_string) {
        jsonw_str(w, key, s->v[0]);
        return;
    }
    jsonw_array(w, key);
    for (uint32_t i = 0; i < s->n; i++)
        jsonw_str(w, NULL, s->v[i]);
    jsonw_end(w);
}

bool members_any_set(const struct member *members, const void *from)
{
    for (const struct member *m = members; m->key; m++)
        if (member_is_set(m, (const char *)from + m->at))
            return true;
    return false;
}

bool member_is_set(const struct member *m, const void *at)
{
    const char *s;
    enum tri t;

    switch (m->kind) {
    case KIND_STR:
        memcpy(&s, at, sizeof s);
        return s != NULL;
    case KIND_WHOLE:
    case KIND_BYTES:
    case KIND_REAL:
        return ((const struct quantity *)at)->set;
    case KIND_BOOL:
        memcpy(&t, at, sizeof t);
        return t != TRI_UNSET;
    case KIND_WORDS:
        return ((const struct words *)at)->n || (m->list && !m->min);
    case KIND_STRS:
        return ((const struct strs *)at)->set;
    case KIND_OBJECT:
        return members_any_set(m->members, at);
    case KIND_OWN:
        return m->is_set(at);
    case KIND_JSON:
        return *(const struct json *const *)at != NULL;
    }
    return false;
}

static void write_member(struct jsonw *w, const struct member *m, const void *at)
{
    const struct quantity *q = at;
    const char *s;

    switch (m->kind) {
    case KIND_STR:
        memcpy(&s, at, sizeof s);
        jsonw_str(w, m->key, s);
        return;
    case KIND_WHOLE:
    case KIND_BYTES:
        jsonw_u64(w, m->key, q->whole);
        return;
    case KIND_REAL:
        jsonw_fixed(w, m->key, q->real, 9);
        return;
    case KIND_BOOL:
        jsonw_bool(w, m->key, *(const enum tri *)at == TRI_TRUE);
        return;
    case KIND_WORDS:
        write_words(w, m, at);
        return;
    case KIND_STRS:
        write_strs(w, m->key, at);
        return;
    case KIND_OBJECT:
        jsonw_object(w, m->key);
        encode_members(w, m->members, at);
        jsonw_end(w);
        return;
    case KIND_OWN:
        m->write(w, m->key, at);
        return;
    case KIND_JSON: /* the caller's own document is not repeated */
        return;
    }
}

/* An object that holds the caller's own documents alone would stand empty: it is left out with them. */
static bool is_repeated(const struct member *m, const void *at)
{
    if (m->kind == KIND_JSON)
        return false;
    if (m->kind != KIND_OBJECT)
        return member_is_set(m, at);
    for (const struct member *of = m->members; of->key; of++)
        if (is_repeated(of, (const char *)at + of->at))
            return true;
    return false;
}

void encode_members(struct jsonw *w, const struct member *members, const void *from)
{
    for (const struct member *m = members; m->key; m++) {
        const char *at = (const char *)from + m->at;

        if (is_repeated(m, at))
            write_member(w, m, at);
    }
}

void notes_write(struct jsonw *w, const char *name, const struct notes *notes)
{
    jsonw_array(w, name);
    for (int of = 0; of < NOTE_OF_COUNT; of++)
        for (uint32_t i = 0; i < notes->n; i++)
            if (notes->of[i] == of)
                jsonw_str(w, NULL, notes->v[i]);
    jsonw_end(w);
}
