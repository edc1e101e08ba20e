def is_deepspeed_zero3_enabled():
    return False
