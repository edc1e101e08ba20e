/*
 * name.h - the names that go into a hub's URLs, and the URLs.
 *
 * Purpose   nothing is asked of the hub, or looked for on disk, under a name that did not pass here. Ids and
 *           revisions: model_id_fault(), revision_fault() of api.
 * Source    huggingface_hub 1.29 file_download.py (hf_hub_url, REGEX_COMMIT_HASH).
 */
#ifndef SERVER_HUB_NAME_H
#define SERVER_HUB_NAME_H

#include <stdbool.h>
#include <stddef.h>

/* What is wrong, as the end of a sentence: "a token ..."; NULL: nothing. What could break out of a header is none. */
const char *token_fault(const char *token);

/* 40 lower-case hex digits: content that never changes. */
bool is_commit(const char *revision);

/* A file of code in a repository's root: letters, digits, '_', then ".py"; as the end of a sentence: "a file ..."; NULL: nothing is wrong. */
const char *code_file_fault(const char *file);

/* Percent-encodes all but letters, digits and "-._~", '/' included. false: it does not fit. */
bool url_quote(const char *text, char *ret, size_t bytes);

/* "{endpoint}/{model}/resolve/{revision}/{file}" and "{endpoint}/api/models/{model}/revision/{revision}?{query}". */
bool url_of_file(const char *endpoint, const char *model, const char *revision, const char *file, char *ret, size_t bytes);
bool url_of_facts(const char *endpoint, const char *model, const char *revision, const char *query, char *ret, size_t bytes);

/* Names of this machine alone: "localhost", 127.0.0.0/8, "::1" with or without brackets. */
bool is_loopback(const char *host);

#endif
