/*
 * The models that are carried: models.csv (id, config, made, parameters, source) beside a folder of configs named ORG__NAME.json.
 *
 * Configs lose their blanks, stand in the order of their types (like ones pack well together), are cut into blocks and packed with zlib. A row of an
 * id whose `config` is another's points to that one's text.
 */
#include "tools/embed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { MODELS_MAX = 8192, BLOCK_BYTES = 48 << 10 };

struct model {
    const char *id, *config, *made, *parameters, *source;
    char *text, *type; /* of its own config; NULL: it has another's */
    size_t bytes, block, offset;
};

struct table {
    const char *file;
    struct text csv;
    struct model *v, *packed[MODELS_MAX]; /* packed: those with a config of their own, in the order in which these are stored */
    size_t n, n_packed;
};

/* --- reading ----------------------------------------------------------------------------------------------------------------------- */

static void drop_blanks(struct text *t)
{
    char *out = t->data;
    bool inside = false;

    for (const char *p = t->data; *p; p++) {
        if (*p == '"')
            inside = !inside;
        if (inside && *p == '\\')
            *out++ = *p++;
        if (inside || !strchr(" \t\r\n", *p))
            *out++ = *p;
    }
    *out = '\0';
    t->bytes = (size_t)(out - t->data);
}

/* The value of the outermost "model_type"; "" where there is none. */
static char *type_of(const char *text)
{
    static const char key[] = "\"model_type\":\"";
    int depth = 0;
    bool inside = false;
    char *ret = calloc(1, 64);

    for (const char *p = text; ret && *p; p++) {
        if (!inside && depth == 1 && !strncmp(p, key, sizeof key - 1)) {
            p += sizeof key - 1;
            memcpy(ret, p, strcspn(p, "\"") < 63 ? strcspn(p, "\"") : 63);
            return ret;
        }
        if (inside && *p == '\\')
            p++;
        else if (*p == '"')
            inside = !inside;
        else if (!inside)
            depth += (*p == '{' || *p == '[') - (*p == '}' || *p == ']');
    }
    return ret;
}

static void read_config(struct table *t, struct model *m, const char *directory)
{
    char path[512], *slash;
    struct text text;

    (void)snprintf(path, sizeof path, "%s/%s", directory, m->id);
    slash = strchr(path + strlen(directory) + 1, '/');
    if (!slash)
        die(t->file, "an id without its organisation: ", m->id);
    (void)snprintf(slash, sizeof path - (size_t)(slash - path), "__%s.json", strchr(m->id, '/') + 1);
    text = read_file(path);
    drop_blanks(&text);
    m->text = text.data;
    m->bytes = text.bytes;
    m->type = type_of(m->text);
    if (!m->type || !m->type[0])
        die(path, "has no model_type", "");
    t->packed[t->n_packed++] = m;
}

static void read_rows(struct table *t, const char *directory)
{
    char *p = t->csv.data, *cells[MAX_COLUMNS];

    if (next_record(t->file, &p, cells) != 5)
        die(t->file, "has other columns than id, config, made, parameters, source", "");
    for (; next_record(t->file, &p, cells) == 5; t->n++) {
        struct model *m = &t->v[t->n];

        if (t->n == MODELS_MAX)
            die(t->file, "has too many rows", "");
        *m = (struct model){.id = cells[0], .config = cells[1], .made = cells[2], .parameters = cells[3], .source = cells[4]};
        if (t->n && strcmp(t->v[t->n - 1].id, m->id) >= 0)
            die(t->file, "not sorted by id, byte by byte, at ", m->id);
        if (!m->config[0])
            read_config(t, m, directory);
    }
    if (*p)
        die(t->file, "a row has not five cells after ", t->v[t->n - 1].id);
}

/* --- places ------------------------------------------------------------------------------------------------------------------------ */

static int by_type(const void *a, const void *b)
{
    struct model *const *x = a, *const *y = b;
    int order = strcmp((*x)->type, (*y)->type);

    return order ? order : strcmp((*x)->id, (*y)->id);
}

static void place(struct table *t)
{
    size_t block = 0, offset = 0;

    qsort(t->packed, t->n_packed, sizeof *t->packed, by_type);
    for (size_t i = 0; i < t->n_packed; i++) {
        if (offset && offset + t->packed[i]->bytes > BLOCK_BYTES) {
            block++;
            offset = 0;
        }
        t->packed[i]->block = block;
        t->packed[i]->offset = offset;
        offset += t->packed[i]->bytes;
    }
}

static const struct model *owner(const struct table *t, const struct model *m)
{
    if (!m->config[0])
        return m;
    for (size_t i = 0; i < t->n; i++)
        if (!strcmp(t->v[i].id, m->config) && t->v[i].text)
            return &t->v[i];
    die(t->file, "no config of its own has ", m->config);
}

/* --- writing ----------------------------------------------------------------------------------------------------------------------- */

static void put_rows(const struct table *t)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct model *m = &t->v[i], *o = owner(t, m);

        printf("{.id = \"%s\", ", m->id);
        if (o != m)
            printf(".of = \"%s\", ", o->id);
        printf(".made = BUILTIN_");
        for (const char *p = m->made; *p; p++)
            putchar(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p);
        printf(", .model_type = \"%s\", .parameters = %s, .block = %zu, .offset = %zu, .bytes = %zu, .source = ", o->type,
               m->parameters[0] ? m->parameters : o->parameters[0] ? o->parameters : "0", o->block, o->offset, o->bytes);
        put_literal(m->source, strlen(m->source));
        printf("},\n");
    }
}

static void put_block(const char *text, size_t bytes)
{
    uLongf n = compressBound(bytes);
    Bytef *packed = malloc(n);

    if (!packed || compress2(packed, &n, (const Bytef *)text, bytes, Z_BEST_COMPRESSION) != Z_OK)
        die("blocks", "no memory", "");
    printf("{");
    put_literal((const char *)packed, n);
    printf(", %lu, %zu},\n", (unsigned long)n, bytes);
    free(packed);
}

static void put_blocks(const struct table *t)
{
    char *block = malloc(MAX_FILE_BYTES);
    size_t bytes = 0;

    if (!block)
        die("blocks", "no memory", "");
    for (size_t i = 0; i < t->n_packed; i++) {
        const struct model *m = t->packed[i];

        if (!m->offset && bytes) {
            put_block(block, bytes);
            bytes = 0;
        }
        memcpy(block + bytes, m->text, m->bytes);
        bytes += m->bytes;
    }
    put_block(block, bytes);
    free(block);
}

void models(const char *file, const char *directory, bool blocks)
{
    struct table *t = calloc(1, sizeof *t);

    if (!t || !(t->v = calloc(MODELS_MAX + 1, sizeof *t->v)))
        die(file, "no memory", "");
    t->file = file;
    t->csv = read_file(file);
    read_rows(t, directory);
    place(t);
    if (blocks)
        put_blocks(t);
    else
        put_rows(t);
    for (size_t i = 0; i < t->n_packed; i++) {
        free(t->packed[i]->text);
        free(t->packed[i]->type);
    }
    free(t->csv.data);
    free(t->v);
    free(t);
}
