# logging: nobody reads it here
CRITICAL, FATAL, ERROR, WARNING, WARN, INFO, DEBUG, NOTSET = 50, 50, 40, 30, 30, 20, 10, 0


class Logger:
    def __init__(self, name="root"):
        self.name = name
        self.handlers = []
        self.level = WARNING

    def debug(self, msg, *args, **kwargs): pass
    def info(self, msg, *args, **kwargs): pass
    def warning(self, msg, *args, **kwargs): pass
    def warn(self, msg, *args, **kwargs): pass
    def error(self, msg, *args, **kwargs): pass
    def exception(self, msg, *args, **kwargs): pass
    def critical(self, msg, *args, **kwargs): pass
    def log(self, level, msg, *args, **kwargs): pass
    def warning_once(self, *args, **kwargs): pass
    def warning_advice(self, *args, **kwargs): pass
    def info_once(self, *args, **kwargs): pass
    def setLevel(self, level): self.level = level
    def getEffectiveLevel(self): return self.level
    def isEnabledFor(self, level): return False
    def addHandler(self, handler): pass
    def addFilter(self, filter): pass


_root = Logger()


def getLogger(name=None):
    return _root


get_logger = getLogger


def warning(msg, *args, **kwargs): pass
def info(msg, *args, **kwargs): pass
def debug(msg, *args, **kwargs): pass
def error(msg, *args, **kwargs): pass
def basicConfig(**kwargs): pass
