#ifndef ACCURACY_H
#define ACCURACY_H

int tape_main(int argc, char **argv);

#endif
