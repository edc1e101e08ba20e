"""What trainers of ms-swift 4.6.0 do in a step, over all logits: a file for each that has a row in tasks.def."""
