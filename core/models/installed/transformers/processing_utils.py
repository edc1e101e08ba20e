from typing import Unpack
