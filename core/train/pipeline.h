/*
 * pipeline.h - one stage of a pipeline while its schedule runs: what loop_pipeline.c and pipeline_chunk.c share. Included by core/train only.
 *
 * Source    torch/distributed/pipelining/{stage,schedules,_backward}.py, torch 2.15.
 * Names     a list of send or receive operations is a Python name that holds its tensor until it is bound anew or cleared: that decides which buffers
 *           overlap.
 */
#ifndef TRAIN_PIPELINE_H
#define TRAIN_PIPELINE_H

#include "train/loop.h"

/* Of one micro-batch, what the stage keeps until its backward. All owned. */
struct chunk {
    val input;    /* ids, or what was received: until backward; on the last stage the loss's graph ends in it and keeps it with itself */
    val received; /* the receive operation's buffer, until forward takes it */
    val output;   /* until it is sent; on the last stage until backward */
    val edge;     /* its grad_fn alone */
    val loss;     /* to the end of the step: _internal_losses */
};

struct schedule {
    struct trainer *t;
    struct run *r;
    uint32_t n, total; /* micro-batches that are played; that there are */
    uint32_t index, stages;
    bool first, last;
    struct chunk *chunks;
    val *outputs;                                         /* save_forward_output of the last stage; NULL: nobody asks */
    val ids, target;                                      /* of the whole step */
    val forward_receive, forward_send, backward_receive, backward_send; /* lists of operations */
    uint32_t second_birth, second_event, third_birth; /* where the second and the third forward of the warm-up begin */
    struct blocks between;                            /* of forwards that are not run */
};

void chunk_bind(struct run *r, val *list, val v); /* a name bound anew: takes `v`, what it held goes after */
static inline val chunk_again(struct run *r, val v)
{
    value_ref(r, v);
    return v;
}

/* ---- of micro-batch i, as PipelineStage has them */
val chunk_receive(struct schedule *s);                             /* a buffer for what a neighbour sends, owned */
void chunk_receive_forward(struct schedule *s, uint32_t i);        /* get_fwd_recv_ops */
val chunk_forward(struct schedule *s, uint32_t i);                 /* forward_one_chunk; the output is the caller's, owned */
void chunk_loss(struct schedule *s, uint32_t i, val output);       /* _compute_loss, on the last stage */
void chunk_list_send(struct schedule *s, uint32_t i);              /* get_fwd_send_ops */
void chunk_release_send(struct schedule *s, uint32_t i);           /* _wait_and_release_fwd_send */
val chunk_receive_gradient(struct schedule *s);                    /* get_bwd_recv_ops; owned, 0 on the last stage */
void chunk_backward(struct schedule *s, uint32_t i, val gradient); /* backward_one_chunk and get_bwd_send_ops; takes `gradient` */

#endif
