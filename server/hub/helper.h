/*
 * helper.h - one thread that does what may wait for a disk: what somebody waits for first, each kind in the order it was given.
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

enum helper_when { HELPER_NOW, HELPER_LATER, HELPER_WHENS };

void helper_give(struct helper *h, struct job *j, enum helper_when when);

/* Returns when nothing is left that is to be done now, and nothing is being done. Not from a job. */
void helper_settle(struct helper *h);

#endif
