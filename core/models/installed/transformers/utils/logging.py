"""Nobody reads what a model says while it is measured."""


class _Logger:
    def _silent(self, *args, **kwargs):
        pass

    debug = info = warn = warning = warning_once = warning_advice = info_once = error = critical = exception = log = setLevel = _silent

    def isEnabledFor(self, level):
        return False


_logger = _Logger()


def get_logger(name=None):
    return _logger


def warning_once(*args, **kwargs):
    pass


def get_verbosity():
    return 30
