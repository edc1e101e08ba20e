"""What trainers of llamafactory 0.9.5 do in a step, over all logits: a file for each that has a row in tasks.def."""
