// Measures prefill and decode with ik_llama.cpp as llama-bench does: its options, its warm-up and its JSON lines.
//
//     ik_bench -m MODEL [-p N,N] [-n N] [-pg N,N] [-d N] [-r N] [-t N,N] [-ctk TYPE -ctv TYPE] [--repack 0|1] [--lora ADAPTER] [--no-warmup]
//
// --repack (ik_llama.cpp's own name is -rtr) converts weights to interleaved layouts at load. -ngl and -o are ignored.

#include "llama.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

[[noreturn]] static void fail(const std::string & why) {
    fprintf(stderr, "ik_bench: %s\n", why.c_str());
    exit(1);
}

static std::vector<int> numbers(const std::string & text) {
    std::vector<int> found;
    std::stringstream parts(text);
    for (std::string part; std::getline(parts, part, ',');) found.push_back(atoi(part.c_str()));
    return found;
}

static ggml_type cache_type(const std::string & name) {
    if (name == "f16") return GGML_TYPE_F16;
    if (name == "q8_0") return GGML_TYPE_Q8_0;
    fail("no KV cache of type " + name);
}

// Random tokens in batches of at most `most`, as llama-bench does: 2048 for a prompt, 1 for decode.
static void process(llama_context * ctx, const llama_model * model, int begin, int count, int most) {
    for (int done = 0; done < count;) {
        std::vector<llama_token> tokens(std::min(count - done, most));
        for (auto & token : tokens) token = rand() % llama_n_vocab(model);
        const int size = (int) tokens.size();
        if (llama_decode(ctx, llama_batch_get_one(tokens.data(), size, begin + done, 0)) != 0) fail("llama_decode failed");
        llama_synchronize(ctx);
        done += size;
    }
}

struct Test { int prompt, generated; };

static void measure(const llama_model * model, llama_context * ctx, Test test, int depth, int threads, int repetitions, bool warm_up) {
    llama_set_n_threads(ctx, threads, threads);
    const int batch = llama_n_batch(ctx);
    const auto once = [&] {
        llama_kv_cache_seq_rm(ctx, 0, depth, -1);
        process(ctx, model, depth, test.prompt, batch);
        process(ctx, model, depth + test.prompt, test.generated, 1);
    };
    // llama-bench's warm-up: the whole prompt, and one token.
    if (warm_up) {
        llama_kv_cache_seq_rm(ctx, 0, depth, -1);
        process(ctx, model, depth, test.prompt, batch);
        process(ctx, model, depth + test.prompt, test.generated > 0, 1);
    }
    std::vector<double> speeds;
    for (int i = 0; i < repetitions; i++) {
        const auto began = std::chrono::steady_clock::now();
        once();
        speeds.push_back((test.prompt + test.generated) / std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
    }
    const double mean = std::accumulate(speeds.begin(), speeds.end(), 0.0) / speeds.size();
    printf(R"({"build_commit":"","backends":"CPU","gpu_info":"","n_prompt":%d,"n_gen":%d,"n_depth":%d,"n_threads":%d,"avg_ts":%f,"samples_ts":[)",
           test.prompt, test.generated, depth, threads, mean);
    for (size_t i = 0; i < speeds.size(); i++) printf("%s%f", i ? "," : "", speeds[i]);
    printf("]}\n");
    fflush(stdout);
}

int main(int argc, char ** argv) {
    std::map<std::string, std::string> given = {{"-p", "512"}, {"-n", "128"}, {"-d", "0"}, {"-r", "5"}, {"-t", "1"}, {"-ctk", "f16"}, {"-ctv", "f16"}, {"--lora", ""},
                                                {"--repack", "0"}, {"-pg", ""}, {"-m", ""}, {"-ngl", ""}, {"-o", ""}};
    bool warm_up = true;
    for (int i = 1; i < argc; i++) {
        const std::string option = std::string(argv[i]) == "-rtr" ? "--repack" : argv[i];
        if (option == "--no-warmup") warm_up = false;
        else if (given.count(option) && i + 1 < argc) given[option] = argv[++i];
        else fail("unknown option, or no value: " + option);
    }
    std::vector<Test> tests;
    for (int n : numbers(given["-p"])) if (n > 0) tests.push_back({n, 0});
    for (int n : numbers(given["-n"])) if (n > 0) tests.push_back({0, n});
    if (const auto both = numbers(given["-pg"]); both.size() == 2) tests.push_back({both[0], both[1]});
    const auto threads = numbers(given["-t"]);
    const int depth = atoi(given["-d"].c_str()), repetitions = atoi(given["-r"].c_str());
    if (tests.empty() || threads.empty() || repetitions < 1) fail("nothing to measure");

    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    llama_backend_init();
    auto model_params = llama_model_default_params();
    model_params.repack_tensors = given["--repack"] == "1";
    llama_model * model = llama_model_load_from_file(given["-m"].c_str(), model_params);
    if (!model) fail("the model could not be loaded: " + given["-m"]);
    llama_lora_adapter * adapter = nullptr;
    if (const auto & path = given["--lora"]; !path.empty()) {
        adapter = llama_lora_adapter_init(model, path.c_str());
        if (!adapter) fail("the adapter could not be loaded: " + path);
    }
    for (const Test & test : tests) {
        auto params = llama_context_default_params();
        params.n_ctx = (depth + test.prompt + test.generated + 255) / 256 * 256;
        params.type_k = cache_type(given["-ctk"]);
        params.type_v = cache_type(given["-ctv"]);
        // ik_llama.cpp refuses both together.
        if (adapter) params.flash_attn = false;
        llama_context * ctx = llama_init_from_model(model, params);
        if (!ctx) fail("no context");
        if (adapter && llama_lora_adapter_set(ctx, adapter, 1.0f) != 0) fail("the adapter could not be applied");
        llama_set_n_threads(ctx, threads.front(), threads.front());
        process(ctx, model, 0, depth, llama_n_batch(ctx));
        for (int count : threads) measure(model, ctx, test, depth, count, repetitions, warm_up);
        llama_free(ctx);
    }
    llama_free_model(model);
    llama_backend_free();
}
