// Instructions with `.aligned` for which no lane waits for the others. The lanes of a warp have to execute the same ones, so
// what each lane has executed is compared where none of them executes any.
#pragma once

#include "../detail/block.h"
#include "../detail/site.h"
#include "findings.h"
#include "race_accesses.h"
#include "race_state.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace tkjit::sim::race {

inline void note_aligned(Aligned instruction, Site site) {
    // without the statement's address, because the compiler may have copied the statement
    ThreadState& state = state_of(*current_thread);
    state.aligned.push_back({instruction, places.at(calling_place(state), site)});
}

inline void report_partial(const Thread& thread, const Executed& partial) {
    static constexpr const char* names[] = {"wgmma.fence", "wgmma.commit_group", "wgmma.wait_group", "tcgen05.wait::ld",
                                            "tcgen05.wait::st"};
    static std::set<unsigned> told;
    if (!told.insert(partial.where).second) return;
    const char* const name = names[unsigned(partial.instruction)];
    check::Json json;
    json.text("kind", partial.instruction < Aligned::tensor_wait_ld ? "wgmma" : "tcgen05");
    json.text("text", std::string("only part of the warp executes this ") + name + "; all its lanes must");
    json.object("here", described(access_of(thread, asynchronous, partial.where), name));
    check::write_line(json);
}

/// Reports the first instruction that only some lanes of a warp have executed.
inline void check_aligned(const Block& block, unsigned first, unsigned end) {
    for (unsigned t = first; t < end; t++) {
        const std::vector<Executed>& own = state_of(block.threads[t]).aligned;
        const std::vector<Executed>& leader = state_of(block.threads[t / warp_threads * warp_threads]).aligned;
        if (own == leader) continue;
        const auto [mine, other] = std::mismatch(own.begin(), own.end(), leader.begin(), leader.end());
        const bool is_own = other == leader.end() || (mine != own.end() && own.size() >= leader.size());
        report_partial(block.threads[is_own ? t : t / warp_threads * warp_threads], is_own ? *mine : *other);
        break;
    }
    for (unsigned t = first; t < end; t++) state_of(block.threads[t]).aligned.clear();
}

}  // namespace tkjit::sim::race
