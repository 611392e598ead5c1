// Renames the `main` of the source that follows, up to an #undef. It becomes a template that is never instantiated, so
// kernels that only `main` launches are not compiled.
//
// If a source does not compile with this template, TKJIT_COMPILE_MAIN only renames `main`. TKJIT_MAIN_OF_VOID is for
// `main(void)`, because no parameter may follow void.
#if defined(TKJIT_COMPILE_MAIN)
#define main tkjit_source_main
#elif defined(TKJIT_MAIN_OF_VOID)
#define main(...) tkjit_source_main(auto...)
#else
#define main(...) tkjit_source_main(__VA_ARGS__ __VA_OPT__(, ) auto...)
#endif
