"""What open-instruct's dpo_tune_cache.py does in a step (allenai/open-instruct e6c3044a): a file for each loss that has a row in tasks.def."""
