"""What trainers of trl 1.16.0 do in a step: a file for each that has a row in tasks.def."""
