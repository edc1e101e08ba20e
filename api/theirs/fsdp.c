/*
 * FSDP's settings, which accelerate's file and TrainingArguments share.
 *
 * Source    accelerate 1.15.0 utils/dataclasses.py FullyShardedDataParallelPlugin; transformers 5.23.0 training_args.py
 *           _process_fsdp_args, 4.40.0 __post_init__.
 */
#include "api/theirs/theirs.h"

#include <stdio.h>
#include <string.h>

/* ShardingStrategy of torch, by name or number. */
static const struct {
    const char *theirs, *method;
} strategies[] = {
    {"full_shard|1", "fsdp"},
    {"shard_grad_op|2", "fsdp_grad_op"},
    {"no_shard|3", "fsdp_no_shard"},
    {"hybrid_shard|4", "hsdp"},
};

static enum err_code say_strategy(struct theirs *t, const char *s, size_t n)
{
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++)
        if (word_among(strategies[i].theirs, s, n, true)) {
            t->fsdp_method = strategies[i].method;
            t->at.strategy = theirs_path(t);
            return ERR_OK;
        }
    return decode_fail(&t->d, ERR_FIELD_VALUE, "'%.*s' is not known; one of: FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD",
                       n > 40 ? 40 : (int)n, s);
}

enum err_code theirs_read_strategy(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const char *s = json_str(v);
    uint64_t number;
    char digit[4];

    (void)key;
    if (s)
        return say_strategy(t, s, strlen(s));
    if (!json_uint64(v, &number) || number > 9)
        return decode_fail(&t->d, ERR_FIELD_TYPE, "must be a strategy's name, not %s", json_type_name(json_type(v)));
    (void)snprintf(digit, sizeof digit, "%u", (unsigned)(number % 10));
    return say_strategy(t, digit, 1);
}

/* A flag under version 2, a strategy under version 1. */
static enum err_code read_reshard(struct theirs *t, const struct their_key *key, const struct json *v)
{
    bool on;

    if (!theirs_flag(v, &on))
        return theirs_read_strategy(t, key, v);
    t->reshard = on ? TRI_TRUE : TRI_FALSE;
    t->at.strategy = theirs_path(t);
    return ERR_OK;
}

enum err_code theirs_read_fsdp_version(struct theirs *t, const struct their_key *key, const struct json *v)
{
    uint64_t n;

    (void)key;
    if (!json_uint64(v, &n) || n < 1 || n > 2)
        return decode_fail(&t->d, ERR_FIELD_VALUE, "1 and 2 are known");
    t->fsdp_version = (unsigned)n;
    return ERR_OK;
}

static enum err_code read_offload(struct theirs *t, const struct their_key *key, const struct json *v)
{
    bool on;
    enum err_code rc = theirs_flag_only(t, v, &on);

    (void)key;
    if (!rc && on)
        t->at.offload_params = t->at.offload_optimizer = theirs_path(t);
    return rc;
}

/* accelerator.py prepare_model wraps the layers itself, whatever gradient_checkpointing says: settled when all is read. */
static enum err_code read_checkpoints(struct theirs *t, const struct their_key *key, const struct json *v)
{
    bool on;
    enum err_code rc = theirs_flag_only(t, v, &on);

    (void)key;
    if (!rc && on)
        t->at.checkpoints = theirs_path(t);
    return rc;
}

enum err_code theirs_read_wrap(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const char *s = json_str(v);

    if (s && !strcmp(s, "TRANSFORMER_BASED_WRAP"))
        return theirs_say_word(t, key->member, "accelerate");
    theirs_gap(&t->d, "a wrap policy other than TRANSFORMER_BASED_WRAP");
    return ERR_OK;
}

static bool ends_in(const char *s, size_t n, const char *end)
{
    return n >= strlen(end) && !memcmp(s + n - strlen(end), end, strlen(end));
}

/* A model's layers have one class, which transformers calls a layer or a block: LlamaDecoderLayer, GPT2Block. */
static bool names_layers(const char *s)
{
    bool one = *s != 0;

    for (size_t n; *s && one; s += n + (s[n] == ',')) {
        s += strspn(s, " ");
        n = strcspn(s, ",");
        one = (ends_in(s, n, "Layer") || ends_in(s, n, "Block")) && !s[n];
    }
    return one;
}

enum err_code theirs_read_layer_class(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const struct json *first = json_first(v);
    const char *s = json_str(json_type(v) == JSON_ARRAY && json_count(v) == 1 ? first : v);

    (void)key;
    if (!(json_type(v) == JSON_ARRAY && !first) && !(s && (!*s || names_layers(s))))
        theirs_gap(&t->d, "units other than the model's layers");
    return ERR_OK;
}

const struct their_key fsdp_keys[] = {
    BY(theirs_read_fsdp_version, "fsdp_version|version", NULL),
    BY(theirs_read_strategy, "fsdp_sharding_strategy|sharding_strategy", NULL),
    BY(read_reshard, "fsdp_reshard_after_forward|reshard_after_forward", NULL),
    BY(read_offload, "fsdp_offload_params|offload_params|fsdp_cpu_offload|cpu_offload", NULL),
    BY(read_checkpoints, "fsdp_activation_checkpointing|activation_checkpointing", NULL),
    BY(theirs_read_wrap, "fsdp_auto_wrap_policy|auto_wrap_policy", "training.fsdp.wrap"),
    SAY("fsdp_backward_prefetch|backward_prefetch|fsdp_backward_prefetch_policy", "training.fsdp.backward_prefetch"),
    SAY("fsdp_forward_prefetch|forward_prefetch", "training.fsdp.forward_prefetch"),
    SAY("fsdp_use_orig_params|use_orig_params", "training.fsdp.use_orig_params"),
    SAY("fsdp_limit_all_gathers|limit_all_gathers", "training.fsdp.limit_all_gathers"),
    SAY("fsdp_cpu_ram_efficient_loading|cpu_ram_efficient_loading", "training.fsdp.cpu_ram_efficient_loading"),
    BY(theirs_read_layer_class, "fsdp_transformer_layer_cls_to_wrap|transformer_layer_cls_to_wrap|transformer_cls_names_to_wrap", NULL),
    MOVES("fsdp_min_num_params|min_num_params", "wrapping by size"),
    MOVES("fsdp_activation_checkpointing_offload|activation_checkpointing_offload", "kept activations on the host"),
    MOVES("fsdp_ignored_modules|ignored_modules|ignored_params", "modules that stay whole"),
    MOVES("fsdp_mixed_precision_policy|mixed_precision_policy|mp_policy", "a precision of FSDP's own"),
    MOVES("param_init_fn", "parameters that are made on the device"),
    MOVES("xla|xla_fsdp_v2|xla_fsdp_grad_ckpt|xla_fsdp_settings", "XLA's FSDP"),
    KNOWN(
        "fsdp_state_dict_type|state_dict_type|fsdp_sync_module_states|sync_module_states|"
        "state_dict_config|optim_state_dict_config|final_state_dict_type|fsdp_final_state_dict_type|cpu_offload_pin_memory"),
    {0},
};

/* --- `fsdp` of the Trainer: true, or options as text or list ("full_shard auto_wrap offload") ------------------------------------------ */

static enum err_code say_option(struct theirs *t, const char *s, size_t n)
{
    if (word_among("auto_wrap", s, n, true))
        return theirs_say_word(t, "training.fsdp.wrap", "accelerate");
    if (!word_among("offload", s, n, true))
        return say_strategy(t, s, n);
    t->at.offload_params = t->at.offload_optimizer = theirs_path(t);
    return ERR_OK;
}

static enum err_code say_options(struct theirs *t, const char *s)
{
    enum err_code rc = ERR_OK;

    while (*s && !rc) {
        size_t n = strcspn(s, " ,");

        if (n)
            rc = say_option(t, s, n);
        s += n + (s[n] != 0);
    }
    return rc;
}

enum err_code theirs_read_fsdp(struct theirs *t, const struct their_key *key, const struct json *v)
{
    enum err_code rc = ERR_OK;
    bool on = true;

    (void)key;
    if (theirs_flag(v, &on)) {
        if (on && !t->at.strategy)
            t->at.strategy = theirs_path(t);
        return ERR_OK;
    }
    if (json_str(v))
        return say_options(t, json_str(v));
    if (json_type(v) != JSON_ARRAY)
        return decode_fail(&t->d, ERR_FIELD_TYPE, "must be true, a text or a list, not %s", json_type_name(json_type(v)));
    json_each (option, v) {
        if (!json_str(option))
            return decode_fail(&t->d, ERR_FIELD_TYPE, "must hold texts");
        rc = rc ? rc : say_options(t, json_str(option));
    }
    return rc;
}
