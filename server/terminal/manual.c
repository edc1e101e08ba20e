#include "server/terminal/manual.h"

#include "api/request/request.h"
#include "base/near.h"
#include "server/command.h"
#include "server/options.h"
#include "server/terminal/paint.h"

#include <string.h>

static const struct manual {
    const char *name, *use, *does;
    const char *more;  /* paragraphs, a line each */
    bool has_members;  /* takes the request's members as flags */
    enum { NO_OPTIONS, ALL_OPTIONS, HUB_OPTIONS } options;
} commands[] = {
    {"serve", "[OPTION ..]", "the HTTP daemon, with the page at /; also what llmemd without a command is",
     "Stops at SIGTERM and SIGINT after the answers under way, reads its configs anew at SIGHUP.", false, ALL_OPTIONS},
    {"estimate", "[--MEMBER VALUE .. | FILE | -]", "one answer: what fits, with which batch, how fast",
     "A member of the request is a flag (--seq-len 4096, --lora.rank 16) or a word (seq_len=4096); a list is joined by commas. FILE is a request as JSON,\n"
     "- is standard input, which is also read where nothing is given. A model may be a directory that holds its config.json.\n"
     "On a terminal the answer is a table, in a pipe JSON: --json and --table say which. --snapshot FILE writes the replayed step as\n"
     "torch.cuda.memory._snapshot() does, for pytorch.org/memory_viz.\n"
     "Exit status: 0 something fits, 3 nothing does, 4 nothing was modelled, 2 a bad request, 1 the program failed.",
     true, HUB_OPTIONS},
    {"models", "[TEXT] [--json]", "models that are carried within, whose names have TEXT", NULL, false, NO_OPTIONS},
    {"gpus", "[NAME | TEXT] [--json]", "GPUs, or what is known of one", NULL, false, NO_OPTIONS},
    {"clusters", "[NAME | TEXT] [--json]", "clusters and machine types, or one", NULL, false, NO_OPTIONS},
    {"methods", "[TEXT] [--json]", "ways to spread a model over GPUs", NULL, false, NO_OPTIONS},
    {"optimizers", "[TEXT] [--json]", "optimizers, as transformers names them", NULL, false, NO_OPTIONS},
    {"completion", "bash | zsh | fish", "what the shell sources to complete commands, members and names", NULL, false, NO_OPTIONS},
    {"manual", "", "this program's man page, as roff", NULL, false, NO_OPTIONS},
    {"version", "", "the version", NULL, false, NO_OPTIONS},
    {"help", "[COMMAND]", "this, or a command's own", NULL, false, NO_OPTIONS},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

/* What estimate takes beside members. */
static const char *const extras[] = {"json", "table", "snapshot"};

static const char *const hub_options[] = {"--models", "--transformers", "--cache-dir", "--offline", "--share-token", "--hub-connect",
                                          "--hub-timeout", "--hub-fresh", "--work-budget"};

static const struct manual *command_of(const char *name)
{
    for (int i = 0; i < COMMANDS; i++)
        if (!strcmp(commands[i].name, name))
            return &commands[i];
    return NULL;
}

static bool takes_option(const struct manual *c, const struct option_text *o)
{
    bool is_hub = false;

    for (size_t i = 0; i < sizeof hub_options / sizeof *hub_options; i++)
        is_hub |= !strcmp(o->flag, hub_options[i]);
    return c->options == ALL_OPTIONS || (c->options == HUB_OPTIONS && is_hub);
}

/* --- members of a request as flags --------------------------------------------------------------------------------------------------- */

typedef void put_flag(FILE *out, const char *name, const struct member *m);

/* "seq_len" -> seq-len: its own name where no object before has one that is called so, as api/request/query.h reads it. */
static void flag_of(const char *prefix, const char *key, char flag[64])
{
    (void)snprintf(flag, 64, "%.24s%s%.36s", prefix, prefix[0] ? "." : "", key);
    for (char *p = flag; *p; p++)
        if (*p == '_')
            *p = '-';
}

static bool is_first(const struct member *in, const char *key)
{
    if (!strcmp(key, "name"))
        return false;
    for (const struct member *o = estimate_members; o->key; o++) {
        if (!strcmp(o->key, key))
            return false;
        if (o->kind != KIND_OBJECT)
            continue;
        for (const struct member *m = o->members; m->key; m++)
            if (!strcmp(m->key, key))
                return o->members == in;
    }
    return false;
}

static void each_flag(FILE *out, put_flag *put)
{
    char flag[64];

    for (const struct member *o = estimate_members; o->key; o++) {
        if (o->kind != KIND_OBJECT) {
            flag_of("", o->key, flag);
            put(out, flag, o);
            continue;
        }
        for (const struct member *m = o->members; m->key; m++) {
            if (!strcmp(m->key, "name"))
                flag_of("", o->key, flag);
            else
                flag_of(is_first(o->members, m->key) ? "" : o->key, m->key, flag);
            if (m->kind != KIND_OBJECT)
                put(out, flag, m);
            for (const struct member *k = m->kind == KIND_OBJECT ? m->members : NULL; k && k->key; k++) {
                flag_of(m->key, k->key, flag);
                put(out, flag, k);
            }
        }
    }
}

static void put_words(FILE *out, const struct member *m, const char *joint)
{
    for (const struct word *w = m->kind == KIND_WORDS ? m->words : NULL; w && w->name; w++)
        fprintf(out, "%s%s", w == m->words ? "" : joint, w->name);
}

enum { COLUMNS = 100, OPTION_COLUMNS = 50, COMMAND_COLUMNS = 130 };

/* A pipe's lines are as long as they are, or of a hundred columns. */
static unsigned columns_of(FILE *out)
{
    struct paint p = paint_of(out);

    return p.is_terminal && p.columns < COLUMNS ? p.columns : COLUMNS;
}

static void put_plain_flag(FILE *out, const char *name, const struct member *m)
{
    static unsigned column;

    (void)m;
    column = strcmp(name, "model") ? column : 0;
    if (column + strlen(name) + 3 > columns_of(out)) {
        fputc('\n', out);
        column = 0;
    }
    column += (unsigned)fprintf(out, "%s--%s", column ? " " : "  ", name);
}

/* --- help ----------------------------------------------------------------------------------------------------------------------------- */

/* On a terminal in its columns: words that a line end parted without a full stop are one paragraph. */
static void put_paragraphs(FILE *out, const char *text)
{
    struct paint p = paint_of(out);
    char line[1024];
    size_t n = 0;

    if (!p.is_terminal) {
        fprintf(out, "%s\n", text);
        return;
    }
    for (; *text && n + 1 < sizeof line; text++) {
        line[n] = *text == '\n' ? ' ' : *text;
        line[++n] = 0;
        if (!text[1] || (text[1] == '\n' && *text == '.')) {
            paint_wrapped(&p, 0, line);
            n = 0;
        }
    }
}

/* On a terminal what it does stands beside an option where that leaves room to read, else below. */
static void put_option(FILE *out, const char *flag, const struct option_text *o)
{
    struct paint p = paint_of(out);

    if (!p.is_terminal) {
        fprintf(out, "  %-24s %-21s %s\n", flag, o->environment, o->help);
        return;
    }
    if (p.columns < 2 * OPTION_COLUMNS)
        fprintf(out, "  %-24s %s\n      ", flag, o->environment);
    else
        fprintf(out, "  %-24s %-21s  ", flag, o->environment);
    paint_wrapped(&p, p.columns < 2 * OPTION_COLUMNS ? 6 : OPTION_COLUMNS, o->help);
}

static void put_options(FILE *out, const struct manual *c)
{
    struct option_text o;

    for (unsigned i = 0; options_text(i, &o); i++)
        if (takes_option(c, &o)) {
            char flag[48];

            (void)snprintf(flag, sizeof flag, "%s %s", o.flag, o.value ? o.value : "");
            put_option(out, flag, &o);
        }
}

static void help_of(FILE *out, const struct manual *c)
{
    struct paint p = paint_of(out);
    bool narrow = p.is_terminal && p.columns < COMMAND_COLUMNS;

    fprintf(out, "llmemd %s %s\n\n%c%s.\n", c->name, c->use, c->does[0] >= 'a' && c->does[0] <= 'z' ? c->does[0] - 'a' + 'A' : c->does[0], c->does + 1);
    if (c->more) {
        fputc('\n', out);
        put_paragraphs(out, c->more);
    }
    if (c->has_members) {
        fprintf(out,
                "\n  llmemd estimate --model Qwen/Qwen2.5-7B --gpu 4090 --tuning lora\n"
                "  llmemd estimate --model meta-llama/Llama-3.1-8B --gpu \"2x RTX 3090\" %s--seq-len 4096 --json | jq .fits\n"
                "\nmembers of the request (openapi.yaml says what each is)\n",
                narrow ? "\\\n    " : "");
        each_flag(out, put_plain_flag);
        fputs("\n", out);
    }
    if (c->options != NO_OPTIONS) {
        fputs("\noptions, and the environment that means the same\n", out);
        put_options(out, c);
    }
}

int manual_help(FILE *out, const char *command)
{
    const struct manual *c = command ? command_of(command) : NULL;
    struct paint p = paint_of(out);
    bool below = p.is_terminal && p.columns < COMMAND_COLUMNS;

    if (c) {
        help_of(out, c);
        return 0;
    }
    if (command)
        return manual_unknown_command(command);
    fputs("llmemd " LLMEMD_VERSION " - which fine-tuning fits on your GPU, with which batch\n\n", out);
    for (int i = 0; i < COMMANDS; i++)
        fprintf(out, below ? "  llmemd %-10s %s\n      %s\n" : "  llmemd %-10s %-32s %s\n", commands[i].name, commands[i].use, commands[i].does);
    fputs("\n  llmemd estimate --model Qwen/Qwen2.5-7B --gpu 4090 --tuning lora\n"
          "\nllmemd COMMAND --help has more.\n\nOptions of serve, and the environment that means the same:\n",
          out);
    put_options(out, &commands[0]);
    return 0;
}

/* --- what is refused ------------------------------------------------------------------------------------------------------------------- */

int manual_refuse(const char *command, const char *word)
{
    fprintf(stderr, "llmemd %s: %s is nothing that it takes; see llmemd %s --help\n", command, word, command);
    return EXIT_BAD_REQUEST;
}

int manual_unknown_command(const char *word)
{
    char text[NEAR_SAY_BYTES];
    struct near near;

    near_init(&near, word);
    for (int i = 0; i < COMMANDS; i++)
        near_offer(&near, commands[i].name, commands[i].name);
    fprintf(stderr, "llmemd: no such command: %s%s\n", word, near.n ? near_say(&near, text) : "; see llmemd --help");
    return EXIT_BAD_REQUEST;
}

/* --- the man page ------------------------------------------------------------------------------------------------------------------------ */

static void put_roff(FILE *out, const char *text)
{
    for (const char *p = text; *p; p++) {
        if ((*p == '.' || *p == '\'') && (p == text || p[-1] == '\n'))
            fputs("\\&", out);
        if (*p == '-')
            fputs("\\-", out);
        else if (*p == '\\')
            fputs("\\e", out);
        else
            fputc(*p, out);
    }
}

static void put_roff_flag(FILE *out, const char *name, const struct member *m)
{
    fputs(".TP\n.B \\-\\-", out);
    put_roff(out, name);
    fputc('\n', out);
    if (m->kind == KIND_WORDS)
        put_words(out, m, ", ");
    else if (m->kind == KIND_BOOL)
        fputs("true or false", out);
    else if (m->kind == KIND_WHOLE || m->kind == KIND_REAL)
        fputs("a number", out);
    else
        fputs(m->kind == KIND_BYTES ? "bytes, or like 80GB" : "text", out);
    fputc('\n', out);
}

static void roff_command(FILE *out, const struct manual *c)
{
    fprintf(out, ".SS %s ", c->name);
    put_roff(out, c->use);
    fputc('\n', out);
    put_roff(out, c->does);
    fputs(".\n", out);
    if (c->more) {
        fputs(".PP\n", out);
        put_roff(out, c->more);
        fputc('\n', out);
    }
    if (c->has_members)
        each_flag(out, put_roff_flag);
}

int command_manual(int argc, char **argv, int first)
{
    struct option_text o;

    if (first < argc)
        return strcmp(argv[first], "--help") ? manual_refuse("manual", argv[first]) : manual_help(stdout, "manual");
    puts(".TH LLMEMD 1 \"\" \"llmemd " LLMEMD_VERSION "\" \"User Commands\"\n.SH NAME\nllmemd \\- which fine\\-tuning fits on your GPU, with which batch\n"
         ".SH SYNOPSIS\n.B llmemd\n[\\fICOMMAND\\fR] [\\fIOPTION\\fR ..]\n.SH COMMANDS");
    for (int i = 0; i < COMMANDS; i++)
        roff_command(stdout, &commands[i]);
    puts(".SH OPTIONS\nOf serve, and those about models and the hub of estimate too. The environment means the same; a flag wins.");
    for (unsigned i = 0; options_text(i, &o); i++) {
        fputs(".TP\n.B ", stdout);
        put_roff(stdout, o.flag);
        if (o.value)
            printf(" \\fI%s\\fR", o.value);
        printf(" (%s)\n", o.environment);
        put_roff(stdout, o.help);
        fputc('\n', stdout);
    }
    puts(".SH SEE ALSO\nThe contract of the daemon is /openapi.yaml, which it serves; its page is at /.");
    return ferror(stdout) ? EXIT_BROKEN : 0;
}

/* --- completion -------------------------------------------------------------------------------------------------------------------------- */

static void put_bare_flag(FILE *out, const char *name, const struct member *m)
{
    (void)m;
    fprintf(out, " --%s", name);
}

static void put_bash_case(FILE *out, const char *name, const struct member *m)
{
    if (m->kind != KIND_WORDS)
        return;
    fprintf(out, "    --%s) words=\"", name);
    put_words(out, m, " ");
    fputs("\" ;;\n", out);
}

static void put_commands(FILE *out)
{
    for (int i = 0; i < COMMANDS; i++)
        fprintf(out, "%s%s", i ? " " : "", commands[i].name);
}

static void put_flags(FILE *out, const struct manual *c)
{
    struct option_text o;

    for (unsigned i = 0; options_text(i, &o); i++)
        if (takes_option(c, &o))
            fprintf(out, " %s", o.flag);
    if (!c->has_members)
        return;
    for (size_t i = 0; i < sizeof extras / sizeof *extras; i++)
        fprintf(out, " --%s", extras[i]);
    each_flag(out, put_bare_flag);
}

/* Names have blanks: a line is one. zsh reads it through bashcompinit. */
static int bash(FILE *out)
{
    fputs("_llmemd() {\n  local now=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words=\n  COMPREPLY=()\n"
          "  if [ \"$COMP_CWORD\" = 1 ]; then\n    words='",
          out);
    put_commands(out);
    fputs("'\n  else case $before in\n"
          "    --model|models) words=$(llmemd models 2>/dev/null) ;;\n"
          "    --gpu|gpus) local IFS=$'\\n'; words=$(llmemd gpus 2>/dev/null | cut -c1-24 | sed 's/ *$//; s/ /\\\\ /g') ;;\n"
          "    --cluster|clusters) words=$(llmemd clusters 2>/dev/null | cut -d' ' -f1) ;;\n"
          "    methods) words=$(llmemd methods 2>/dev/null | cut -d' ' -f1) ;;\n    completion) words='bash zsh fish' ;;\n    help) words='",
          out);
    put_commands(out);
    fputs("' ;;\n", out);
    each_flag(out, put_bash_case);
    fputs("    *) case ${COMP_WORDS[1]} in\n", out);
    for (int i = 0; i < COMMANDS; i++)
        if (commands[i].options != NO_OPTIONS || commands[i].has_members) {
            fprintf(out, "      %s) words='--help", commands[i].name);
            put_flags(out, &commands[i]);
            fputs("' ;;\n", out);
        }
    fputs("      *) words='--help --json' ;;\n    esac ;;\n  esac; fi\n"
          "  COMPREPLY=($(compgen -W \"$words\" -- \"$now\"))\n"
          "  local i; for i in \"${!COMPREPLY[@]}\"; do COMPREPLY[i]=$(printf %q \"${COMPREPLY[i]}\"); done\n}\ncomplete -o default -F _llmemd llmemd\n", out);
    return 0;
}

static int zsh(FILE *out)
{
    fputs("#compdef llmemd\nautoload -U +X bashcompinit && bashcompinit\n", out);
    return bash(out);
}

static void put_fish_flag(FILE *out, const char *name, const struct member *m)
{
    if (!strcmp(name, "model") || !strcmp(name, "gpu"))
        return;
    fprintf(out, "complete -c llmemd -n '__fish_seen_subcommand_from estimate' -l %s", name);
    if (m->kind == KIND_WORDS) {
        fputs(" -x -a '", out);
        put_words(out, m, " ");
        fputs("'", out);
    } else if (m->kind != KIND_BOOL) {
        fputs(" -x", out);
    }
    fputc('\n', out);
}

static int fish(FILE *out)
{
    struct option_text o;

    fputs("complete -c llmemd -f\n", out);
    for (int i = 0; i < COMMANDS; i++)
        fprintf(out, "complete -c llmemd -n __fish_use_subcommand -a %s -d '%s'\n", commands[i].name, commands[i].does);
    fputs("complete -c llmemd -n '__fish_seen_subcommand_from estimate' -l model -x -a '(llmemd models)'\n"
          "complete -c llmemd -n '__fish_seen_subcommand_from estimate' -l gpu -x -a '(llmemd gpus | cut -c1-24 | string trim)'\n"
          "complete -c llmemd -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'\n",
          out);
    each_flag(out, put_fish_flag);
    for (size_t i = 0; i < sizeof extras / sizeof *extras; i++)
        fprintf(out, "complete -c llmemd -n '__fish_seen_subcommand_from estimate' -l %s\n", extras[i]);
    for (unsigned i = 0; options_text(i, &o); i++)
        fprintf(out, "complete -c llmemd -n '__fish_seen_subcommand_from serve%s' -l %s%s\n", takes_option(&commands[1], &o) ? " estimate" : "", o.flag + 2,
                o.value ? " -x" : "");
    return 0;
}

int command_completion(int argc, char **argv, int first)
{
    const char *shell = first < argc ? argv[first] : "";

    if (!strcmp(shell, "bash"))
        return bash(stdout);
    if (!strcmp(shell, "zsh"))
        return zsh(stdout);
    if (!strcmp(shell, "fish"))
        return fish(stdout);
    if (!strcmp(shell, "--help"))
        return manual_help(stdout, "completion");
    fprintf(stderr, "llmemd completion: for which shell? bash, zsh or fish\n");
    return EXIT_BAD_REQUEST;
}
