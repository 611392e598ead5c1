// Renames the `main` of the source that follows, up to an #undef. It becomes a template without an instance, so the kernels
// that only it launches are not compiled.
//
// TKJIT_COMPILE_MAIN is for a source that this breaks, TKJIT_MAIN_OF_VOID for one with `main(void)`: beside void there can
// be no other parameter.
#if defined(TKJIT_COMPILE_MAIN)
#define main tkjit_source_main
#elif defined(TKJIT_MAIN_OF_VOID)
#define main(...) tkjit_source_main(auto...)
#else
#define main(...) tkjit_source_main(__VA_ARGS__ __VA_OPT__(, ) auto...)
#endif
