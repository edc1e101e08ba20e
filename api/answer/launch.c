/* What launch/ is told of a candidate: the job as the request named it, the step as it was resolved. */
#include "api/answer/estimate.h"

#include "catalog/clusters.h"
#include "launch/launch.h"

#include <string.h>

static const char *name_of(const struct word *words, int value)
{
    for (; words->name; words++)
        if (words->value == value)
            return words->name;
    return "";
}

/* The preset whose partition and options are known; what a request says beside a preset's name stands. */
static bool site_of(const struct estimate *e, struct launch_site *ret)
{
    const struct cluster *c = e->rq.cluster.name ? cluster_find(e->rq.cluster.name) : NULL;
    const struct slurm *s = c ? &c->slurm : NULL;

    if (!s || !s->gpus)
        return false;
    *ret = (struct launch_site){
        .partition = s->partition,
        .small_partition = s->small_partition,
        .account = s->account,
        .gpus = s->gpus,
        .options = s->options,
        .time_limit = s->time_limit,
        .modules = s->modules,
        .environment = s->environment,
        .small_gpus = s->small_gpus,
        .cpus_per_gpu = s->cpus_per_gpu,
        .gb_per_gpu = s->gb_per_gpu,
        .gpus_per_node = c->gpus_per_node,
    };
    return true;
}

static bool is_main(const char *revision)
{
    return !revision || !strcmp(revision, "main");
}

/* The recommendation has them always, every candidate that fits where ?launch=all asks for it. */
void candidate_launch(struct jsonw *w, const struct estimate *e, const struct plan_candidate *c, bool is_recommendation)
{
    const struct cluster_request *at = &e->rq.cluster;
    const struct words *framework = &e->rq.stack.framework;
    struct launch_site site;
    struct launch l = {
        .step = &c->step,
        .model = e->rq.model,
        .revision = is_main(e->rq.revision) ? NULL : e->rq.revision,
        .optimizer = name_of(optimizer_words, (int)c->step.r.optimizer),
        .attention = name_of(attention_words, (int)c->step.r.attention),
        .gpus_per_node = at->gpus_per_node.set ? (uint32_t)at->gpus_per_node.whole : 1,
        .lora_alpha = e->rq.training.lora.alpha.set ? e->rq.training.lora.alpha.real : 0,
        .expandable_segments = e->question.expandable_segments,
        .own_loop = framework->n && framework_words[framework->at[0]].value == FRAMEWORK_ENGINE,
    };

    if (!c->modelled || !c->fits || !(is_recommendation || shape_launches_all(e->shape)))
        return;
    if (site_of(e, &site))
        l.site = &site;
    launch_write(w, "launch", &l);
}
