/*
 * lists.h - `llmemd models|gpus|clusters|methods|optimizers [NAME | TEXT]`: what the service's own lists say.
 *
 * Rules     the endpoints of api/ answer, as they do over HTTP; --json gives their bytes. With a name one is shown, with another text what has it in a
 *           name. In a pipe a line a row, the name first.
 */
#ifndef SERVER_TERMINAL_LISTS_H
#define SERVER_TERMINAL_LISTS_H

/* An exit status of command.h. */
int command_list(const char *list, int argc, char **argv, int first);

#endif
