"""train.py of a plain loop: one step of a tiny model in DistributedDataParallel, as torchrun starts it. Prints who was there."""
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(8, 8), bucket_cap_mb=25)
before = model.module.weight.detach().clone()
optimizer = torch.optim.AdamW(model.parameters())
model(torch.randn(4, 8) + dist.get_rank()).square().mean().backward()
optimizer.step()
if dist.get_rank() == 0:
    moved = bool((model.module.weight - before).abs().max() > 0)
    print("stepped 1 of", dist.get_world_size(), type(model).__name__, "local", os.environ["LOCAL_WORLD_SIZE"], "moved" if moved else "still", flush=True)
dist.destroy_process_group()
