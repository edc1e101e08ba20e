"""Configs as PreTrainedConfig.save_pretrained() writes them, one model of each type that is carried: tests/data/saved.jsonl.

    python3 tests/data/make_saved.py > tests/data/saved.jsonl

Made with transformers 5.23. What it has no class for is left out, and checkpoints that are quantised."""
import glob
import json
import os

import transformers
from transformers import CONFIG_MAPPING

done = set()
for path in sorted(glob.glob(os.path.join(os.path.dirname(__file__), "../../core/catalog/data/configs/*.json")), key=os.path.getsize, reverse=True):
    with open(path) as f:
        config = json.load(f)
    kind = config.get("model_type")
    if kind in done or kind not in CONFIG_MAPPING or "quantization_config" in config or not hasattr(transformers, config.get("architectures", [""])[0]):
        continue
    done.add(kind)
    saved = json.loads(CONFIG_MAPPING[kind].from_dict(config).to_json_string(use_diff=True))
    if "architectures" in config:
        saved["architectures"] = config["architectures"]
    print(json.dumps({"model": os.path.basename(path)[:-5].replace("__", "/"), "config": saved}))
