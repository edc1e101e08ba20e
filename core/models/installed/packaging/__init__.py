from packaging import version
