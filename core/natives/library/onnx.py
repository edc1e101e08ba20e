def is_in_onnx_export():
    return False
