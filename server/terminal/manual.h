/*
 * manual.h - the commands in one table, and what is made of it: --help of each, the man page, completion of three shells.
 *
 * Source    options are rows of options.c, members of a request those of api/request, words those of api/words: a new one is in all of them by itself.
 */
#ifndef SERVER_TERMINAL_MANUAL_H
#define SERVER_TERMINAL_MANUAL_H

#include <stdio.h>

/* Of one command; NULL: of all. Returns 0. */
int manual_help(FILE *out, const char *command);

/* One line on standard error: the command does not take `word`, what is near, where its help is. Returns the exit status of a bad request. */
int manual_refuse(const char *command, const char *word);

int manual_unknown_command(const char *word);

/* llmemd manual: the man page. llmemd completion bash|zsh|fish: what each sources. */
int command_manual(int argc, char **argv, int first);
int command_completion(int argc, char **argv, int first);

#endif
