"""What trainers of axolotl 0.19.0 do in a step, over the trl 1.9 that it pins: a file for each that has a row in tasks.def."""
