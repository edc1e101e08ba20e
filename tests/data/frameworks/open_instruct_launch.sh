python launch.py --budget some --gpus 8 -- accelerate launch \
    --mixed_precision bf16 \
    --num_processes 8 \
    --use_deepspeed \
    open_instruct/finetune.py \
    --model_name_or_path Qwen/Qwen2-0.5B \
    --max_seq_length 2048 \
    --per_device_train_batch_size=2 \
    --gradient_checkpointing
