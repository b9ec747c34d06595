#pragma once

/// The commands of the llmd binary: flags and wiring, one small file each. argv[0] is the command's
/// name. The return value is the process's exit code: 0, 1 for a failure while running, 2 for bad
/// flags or configuration.
namespace llmd {

int run_router(int argc, char** argv);
int run_epp(int argc, char** argv);
int run_sim(int argc, char** argv);
int run_tokenizer(int argc, char** argv);
int run_kv_indexer(int argc, char** argv);
int run_check(int argc, char** argv);
int run_explain(int argc, char** argv);
int run_bench(int argc, char** argv);
int run_demo(int argc, char** argv);
int run_demo_flow(int argc, char** argv);

}  // namespace llmd
