/*
 * command.h - `llmemd estimate`: one question, one answer, without a socket of our own.
 *
 * Purpose   the same two functions of api/ and the same hub as the daemon: the same bytes.
 * Use       a request on standard input or in a file, or members as arguments: llmemd estimate --model gpt2 --gpu T4 (the GET form). On a terminal
 *           the answer is a table (terminal/table.h).
 */
#ifndef SERVER_COMMAND_H
#define SERVER_COMMAND_H

/* Exit status for scripts. */
enum { EXIT_FITS = 0, EXIT_BROKEN = 1, EXIT_BAD_REQUEST = 2, EXIT_NOTHING_FITS = 3, EXIT_NOT_MODELLED = 4 };

int command_estimate(int argc, char **argv, int first);

#endif
