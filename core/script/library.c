/* Modules of the language itself, in the language: library/NAME.py. */
#include "script/object.h"

static const char text_functools[] =
#include "gen/library_functools.inc"
    ;
static const char text_typing[] =
#include "gen/library_typing.inc"
    ;
static const char text_typing_extensions[] =
#include "gen/library_typing_extensions.inc"
    ;
static const char text_collections[] =
#include "gen/library_collections.inc"
    ;
static const char text_collections_abc[] =
#include "gen/library_collections_abc.inc"
    ;
static const char text_dataclasses[] =
#include "gen/library_dataclasses.inc"
    ;
static const char text_enum[] =
#include "gen/library_enum.inc"
    ;
static const char text_contextlib[] =
#include "gen/library_contextlib.inc"
    ;
static const char text_copy[] =
#include "gen/library_copy.inc"
    ;
static const char text_itertools[] =
#include "gen/library_itertools.inc"
    ;
static const char text_operator[] =
#include "gen/library_operator.inc"
    ;
static const char text_types[] =
#include "gen/library_types.inc"
    ;
static const char text_abc[] =
#include "gen/library_abc.inc"
    ;
static const char text_warnings[] =
#include "gen/library_warnings.inc"
    ;
static const char text_logging[] =
#include "gen/library_logging.inc"
    ;
static const char text_inspect[] =
#include "gen/library_inspect.inc"
    ;
static const char text_sys[] =
#include "gen/library_sys.inc"
    ;
static const char text_numbers[] =
#include "gen/library_numbers.inc"
    ;
static const char text_contextvars[] =
#include "gen/library_contextvars.inc"
    ;
static const char text_threading[] =
#include "gen/library_threading.inc"
    ;
static const char text_os[] =
#include "gen/library_os.inc"
    ;
static const char text_property[] =
#include "gen/library__property.inc"
    ;
static const char text_future[] =
#include "gen/library___future__.inc"
    ;
static const char text_importlib[] =
#include "gen/library_importlib.inc"
    ;
static const char text_importlib_util[] =
#include "gen/library_importlib_util.inc"
    ;
static const char text_refused[] =
#include "gen/library_refused.inc"
    ;

const struct library_text library_texts[] = {{"functools", text_functools},
                                             {"typing", text_typing},
                                             {"typing_extensions", text_typing_extensions},
                                             {"collections", text_collections},
                                             {"collections.abc", text_collections_abc},
                                             {"dataclasses", text_dataclasses},
                                             {"enum", text_enum},
                                             {"contextlib", text_contextlib},
                                             {"copy", text_copy},
                                             {"itertools", text_itertools},
                                             {"operator", text_operator},
                                             {"types", text_types},
                                             {"abc", text_abc},
                                             {"warnings", text_warnings},
                                             {"logging", text_logging},
                                             {"inspect", text_inspect},
                                             {"sys", text_sys},
                                             {"numbers", text_numbers},
                                             {"contextvars", text_contextvars},
                                             {"threading", text_threading},
                                             {"_property", text_property},
                                             {"__future__", text_future},
                                             /* may be imported, but not used */
                                             {"os", text_os},
                                             {"os.path", text_refused},
                                             {"re", text_refused},
                                             {"json", text_refused},
                                             {"random", text_refused},
                                             {"io", text_refused},
                                             {"pathlib", text_refused},
                                             {"importlib", text_importlib},
                                             {"importlib.util", text_importlib_util},
                                             {"importlib.metadata", text_refused},
                                             {"time", text_refused},
                                             {"datetime", text_refused},
                                             {"shutil", text_refused},
                                             {"tempfile", text_refused},
                                             {"subprocess", text_refused},
                                             {"socket", text_refused},
                                             {"ctypes", text_refused},
                                             {"pickle", text_refused},
                                             {"hashlib", text_refused},
                                             {"glob", text_refused},
                                             {"weakref", text_refused},
                                             {"textwrap", text_refused},
                                             {"traceback", text_refused},
                                             {"uuid", text_refused},
                                             {"struct", text_refused},
                                             {"bisect", text_refused},
                                             {"queue", text_refused},
                                             {"base64", text_refused},
                                             {"bz2", text_refused},
                                             {"string", text_refused},
                                             {"platform", text_refused},
                                             {"asyncio", text_refused},
                                             {"csv", text_refused},
                                             {"urllib", text_refused},
                                             {"urllib.request", text_refused},
                                             {"concurrent", text_refused},
                                             {"concurrent.futures", text_refused},
                                             {"heapq", text_refused},
                                             {"statistics", text_refused},
                                             {"fractions", text_refused},
                                             {"decimal", text_refused},
                                             {"queue", text_refused},
                                             {"asyncio", text_refused},
                                             {"concurrent", text_refused},
                                             {"concurrent.futures", text_refused},
                                             {"multiprocessing", text_refused},
                                             {"signal", text_refused},
                                             {"platform", text_refused},
                                             {"string", text_refused},
                                             {"gc", text_refused},
                                             {"atexit", text_refused},
                                             {"base64", text_refused},
                                             {"urllib", text_refused},
                                             {"urllib.request", text_refused},
                                             {"http", text_refused},
                                             {"requests", text_refused},
                                             {"zipfile", text_refused},
                                             {"tarfile", text_refused},
                                             {"csv", text_refused},
                                             {"unicodedata", text_refused},
                                             {"difflib", text_refused},
                                             {"pprint", text_refused},
                                             {"builtins", text_refused},
                                             {"zlib", text_refused},
                                             {"gzip", text_refused},
                                             {"lzma", text_refused},
                                             {"secrets", text_refused},
                                             {"argparse", text_refused},
                                             {"getpass", text_refused},
                                             {"codecs", text_refused},
                                             {"locale", text_refused},
                                             {"array", text_refused},
                                             {"cmath", text_refused},
                                             {"xml", text_refused},
                                             {"html", text_refused},
                                             {"sqlite3", text_refused},
                                             {"select", text_refused},
                                             {"ssl", text_refused},
                                             {"resource", text_refused},
                                             {"ast", text_refused},
                                             {"dis", text_refused},
                                             {"pkgutil", text_refused},
                                             {"site", text_refused},
                                             {"unittest", text_refused},
                                             {"pdb", text_refused},
                                             {NULL, NULL}};
