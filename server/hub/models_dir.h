/*
 * models_dir.h - config.json files that the owner of the service has on a disk: --models DIR.
 *
 * Purpose   DIR/OWNER/NAME/config.json, a folder of weights as it was downloaded; DIR/OWNER/NAME.json or DIR/OWNER__NAME.json, a config alone;
 *           or huggingface_hub's own layout, DIR/models--OWNER--NAME. What stands there is shown before the hub is asked.
 * Rules     `model` is a checked name. Links are followed: the directory is the owner's. Regular files up to 1 MiB that hold a JSON object.
 * Threads   reads files: for the hub's helper.
 */
#ifndef SERVER_HUB_MODELS_DIR_H
#define SERVER_HUB_MODELS_DIR_H

#include "server/hub/snapshot.h"

/* NULL: it has none. `revision`: "main"; of code also the commit of its config. Code lies beside a config.json: DIR/OWNER/NAME/modeling_x.py, or in
 * huggingface_hub's layout. */
struct snapshot *models_dir_read(const char *dir, const char *model, const char *revision, const char *file);

#endif
