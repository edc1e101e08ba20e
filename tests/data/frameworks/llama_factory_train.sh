#!/bin/bash
MODEL=Qwen/Qwen3-8B

# full tuning of a small set
FORCE_TORCHRUN=1 llamafactory-cli train \
    --model_name_or_path ${MODEL} \
    --stage sft \
    --do_train \
    --finetuning_type full \
    --template qwen3 \
    --dataset alpaca_en_demo \
    --cutoff_len 1536 \
    --per_device_train_batch_size 1 \
    --gradient_accumulation_steps 4 \
    --learning_rate 1e-5 \
    --output_dir saves/full \
    --bf16
