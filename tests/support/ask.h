/*
 * ask.h - a request through the two functions that a server calls, with the builtin configs.
 */
#ifndef SUPPORT_ASK_H
#define SUPPORT_ASK_H

#include "api/api.h"
#include "base/json.h"

#include <stdint.h>

struct reply {
    struct api_response r;
    struct api_needs needs;
    struct json *doc; /* of an answer that is JSON */
    void *block;
};

/* method "POST" takes a body, "GET" a query after '?' in the path. Everything lives until reply_done(). */
struct reply ask_within(size_t room, const char *method, const char *path, const char *type, const char *body);
struct reply ask(const char *body);  /* POST /estimate */
struct reply ask_get(const char *path);
void reply_done(struct reply reply);

/* The same with these configs instead of the builtin ones. */
struct reply ask_with(const struct api_config *configs, size_t n, const char *method, const char *path, const char *body);

/* The same as ask() with a budget of work. */
struct reply ask_working(struct budget *budget, const char *body);

/* The same as ask() in memory whose bytes were all `byte`: malloc()'s of a daemon that has answered others is no zero. */
struct reply ask_over(int byte, const char *body);

/* A top-level string of the answer, "" where there is none. */
const char *reply_text(const struct reply *reply, const char *name);

/* "training/lora/rank" within the answer; elements by their number. */
const struct json *reply_at(const struct reply *reply, const char *path);

/* The same as text: "16", "true", the string itself, or "(null)" and the like for another type. */
void reply_value(const struct reply *reply, const char *path, char text[64]);

#define OPT "\"model\":\"facebook/opt-125m\""
#define GPU "\"cluster\":{\"gpu\":\"A100-40GB\"}"
#define TRAIN(inner) "{" OPT "," GPU ",\"training\":{" inner "}}"

#endif
