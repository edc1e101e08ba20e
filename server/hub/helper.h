/*
 * helper.h - one thread that does what may wait for a disk, in the order it was given.
 */
#ifndef SERVER_HUB_HELPER_H
#define SERVER_HUB_HELPER_H

struct helper;

struct job {
    struct job *next;
    void (*run)(struct job *j); /* on the helper's thread; the job may be gone afterwards */
};

struct helper *helper_new(void); /* NULL: no thread */
void helper_free(struct helper *h); /* after all jobs have run */
void helper_give(struct helper *h, struct job *j);

/* Returns when nothing that was given before is left. Not from a job. */
void helper_settle(struct helper *h);

#endif
