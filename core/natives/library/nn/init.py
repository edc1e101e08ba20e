"""Values of parameters, which nobody looks at."""


def _filled(tensor, *args, **kwargs):
    return tensor


uniform_ = normal_ = trunc_normal_ = constant_ = ones_ = zeros_ = eye_ = dirac_ = _filled
xavier_uniform_ = xavier_normal_ = kaiming_uniform_ = kaiming_normal_ = orthogonal_ = sparse_ = _filled


def calculate_gain(nonlinearity, param=None):
    return 1.0
