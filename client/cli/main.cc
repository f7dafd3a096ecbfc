// chorale: the command line client of a Chorale server.
#include "client/cli/run.h"

int main(int argc, char** argv) { return chorale::client::Run(argc, argv); }
