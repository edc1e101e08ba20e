/* Modules of the language itself, in the language: library/NAME.py. */
#include "script/object.h"


const struct library_text library_texts[] = {{NULL, NULL}};
