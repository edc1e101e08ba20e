# four GPUs
nproc_per_node=4

CUDA_VISIBLE_DEVICES=0,1,2,3 \
NPROC_PER_NODE=$nproc_per_node \
swift sft \
    --model Qwen/Qwen2-0.5B \
    --tuner_type full \
    --dataset 'some/chat-zh#500' \
              'some/chat-en#500' \
    --torch_dtype bfloat16 \
    --per_device_train_batch_size 1 \
    --learning_rate 1e-5 \
    --gradient_accumulation_steps $(expr 32 / $nproc_per_node) \
    --max_length 4096 \
    --packing true \
    --attn_impl flash_attn \
    --lr_scheduler_kwargs '{"min_lr": 1e-6}' \
    --system 'You are a helpful assistant.' \
    --deepspeed zero2
