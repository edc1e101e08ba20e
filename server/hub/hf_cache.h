/*
 * hf_cache.h - what huggingface_hub has downloaded on this machine: $HF_HUB_CACHE, read only.
 *
 * Purpose   models--{org}--{name}/ with refs/{revision} (a file holding the commit), snapshots/{commit}/config.json (a link to
 *           ../../blobs/{etag}, or a file where links were not to be had), .no_exist/{commit}/config.json (known to be absent).
 *           Each step is opened from its directory without following links; the one link that the layout has is followed when it
 *           says what it may, so nothing leads out of the model's directory.
 * Source    huggingface_hub 1.29 file_download.py (repo_folder_name, try_to_load_from_cache), constants.py.
 * Threads   any; the hub's helper calls it.
 */
#ifndef SERVER_HUB_HF_CACHE_H
#define SERVER_HUB_HF_CACHE_H

#include "server/hub/snapshot.h"

/* `file`: "config.json" or a checked name of code. NULL: none that is one. *ret_absent: the repository has none at that commit. */
struct snapshot *hf_cache_read(const char *dir, const char *model, const char *revision, const char *file, bool *ret_absent);

#endif
