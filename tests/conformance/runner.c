#include "runner.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_SIZE = 4096, NAME_SIZE = 64 };

static bool read_tensor(onnx_tensor *out, const char *path, char *why, size_t why_size) {
    size_t size;
    void *bytes = onnx_file_read(path, &size, why, why_size);
    const bool whole = bytes && onnx_tensor_parse(out, bytes, size, why, why_size);
    free(bytes);
    return whole;
}

/* Checks the declared type of input or output against the supported ones. */
static bool holds(graph *g, const Onnx__ValueInfoProto *info, const char *what) {
    const char *name = info->name ? info->name : "";
    if (!info->type || !info->type->tensor_type) {
        graph_end(g, VERDICT_UNSUPPORTED, "%s %s, which is no tensor", what, name);
        return false;
    }
    const int type = info->type->tensor_type->elem_type;
    if (onnx_type_size(type) == 0) {
        graph_end(g, VERDICT_UNSUPPORTED, "%s for %s %s", onnx_type_name(type), what, name);
        return false;
    }
    return true;
}

static void give_inputs(graph *g, const char *folder) {
    const Onnx__GraphProto *proto = g->model->graph;
    char path[PATH_SIZE + NAME_SIZE], why[PATH_SIZE + 2 * NAME_SIZE];
    for (size_t i = 0; i < proto->n_input && g->verdict == VERDICT_PASS; i++) {
        onnx_tensor tensor = {0};
        snprintf(path, sizeof(path), "%s/input_%zu.pb", folder, i);
        if (!holds(g, proto->input[i], "input"))
            return;
        if (!read_tensor(&tensor, path, why, sizeof(why))) {
            graph_end(g, VERDICT_FAIL, "input_%zu: %s", i, why);
            return;
        }
        graph_give(g, proto->input[i]->name, &tensor);
    }
}

static bool same_shape(const graph_value *got, const onnx_tensor *want) {
    const bool host = got->host.data != NULL;
    const int rank = got->scalar ? 0 : host ? got->host.rank : got->device.rank;
    const int64_t *dims = host ? got->host.dims : got->device.dims;
    bool same = rank == want->rank && got->type == want->type;
    for (int i = 0; same && i < rank; i++)
        same = dims[i] == want->dims[i];
    return same;
}

/* Compares one output with its file. */
static void check_output(graph *g, case_result *result, const char *name, const onnx_tensor *want) {
    const graph_value *got = graph_find(g, name);
    if (!got || !same_shape(got, want)) {
        graph_end(g, VERDICT_FAIL, "output %s is %s", name,
                  got ? "of another type or other dimensions than it should" : "not there");
        return;
    }
    double *is = graph_numbers(g, got, want->count), *should = malloc((want->count + 1) * sizeof(*should));
    for (size_t i = 0; should && i < want->count; i++)
        should[i] = onnx_tensor_number(want, i);
    if (is && should && g->verdict == VERDICT_PASS) {
        size_t where;
        const double allowed = compare_allowed(want->type);
        const double error = compare(is, should, want->count, allowed == 0, &where);
        if (error > allowed)
            graph_end(g, VERDICT_FAIL, "output %s: element %zu is %.9g and should be %.9g (error %.2g, allowed %.2g)",
                      name, where, is[where], should[where], error, allowed);
        if (error >= result->error) {
            result->error = error;
            result->allowed = allowed;
        }
    }
    free(is);
    free(should);
}

static void check_outputs(graph *g, case_result *result, const char *folder) {
    const Onnx__GraphProto *proto = g->model->graph;
    char path[PATH_SIZE + NAME_SIZE], why[PATH_SIZE + 2 * NAME_SIZE];
    for (size_t i = 0; i < proto->n_output && g->verdict == VERDICT_PASS; i++) {
        const char *name = proto->output[i]->name ? proto->output[i]->name : "";
        onnx_tensor want = {0};
        snprintf(path, sizeof(path), "%s/output_%zu.pb", folder, i);
        if (!read_tensor(&want, path, why, sizeof(why)))
            graph_end(g, VERDICT_FAIL, "output_%zu: %s", i, why);
        else if (!want.data)
            graph_end(g, VERDICT_UNSUPPORTED, "%s for output %s", onnx_type_name(want.type), name);
        else
            check_output(g, result, name, &want);
        onnx_tensor_free(&want);
    }
}

static void run_data_set(tfm_context *ctx, const Onnx__ModelProto *model, const char *folder, case_result *result) {
    graph g;
    graph_init(&g, ctx, model);
    if (tfm_scope_open(ctx) != TFM_OK)
        graph_end(&g, VERDICT_FAIL, "%s", tfm_error_message());
    give_inputs(&g, folder);
    for (size_t i = 0; i < model->graph->n_output && g.verdict == VERDICT_PASS; i++)
        holds(&g, model->graph->output[i], "output");
    graph_run(&g);
    /* A constant alone only tests the file reader. */
    const bool constant = model->graph->n_node == 1 && strcmp(model->graph->node[0]->op_type, "Constant") == 0;
    if (g.on_device == 0 && model->graph->n_node > 0 && !constant)
        graph_end(&g, VERDICT_UNSUPPORTED, "op %s alone, which the runner computes without the library",
                  model->graph->node[0]->op_type);
    check_outputs(&g, result, folder);
    if (tfm_context_status(ctx) == TFM_OK)
        tfm_scope_close(ctx, 0, NULL);
    if (tfm_context_status(ctx) != TFM_OK)
        tfm_context_clear_error(ctx);
    result->verdict = g.verdict;
    memcpy(result->sentence, g.sentence, sizeof(g.sentence));
    graph_free(&g);
}

case_result case_run(tfm_context *ctx, const char *folder) {
    case_result result = {.verdict = VERDICT_FAIL};
    char path[PATH_SIZE];
    size_t size;
    snprintf(path, sizeof(path), "%s/model.onnx", folder);
    void *bytes = onnx_file_read(path, &size, result.sentence, sizeof(result.sentence));
    Onnx__ModelProto *model = bytes ? onnx_model_parse(bytes, size, result.sentence, sizeof(result.sentence)) : NULL;
    free(bytes);
    int sets = 0;
    for (bool more = model != NULL; more; sets += more) {
        snprintf(path, sizeof(path), "%s/test_data_set_%d", folder, sets);
        more = access(path, R_OK) == 0;
        if (more)
            run_data_set(ctx, model, path, &result);
        more = more && result.verdict == VERDICT_PASS;
    }
    if (model && sets == 0 && result.verdict == VERDICT_FAIL && !result.sentence[0])
        snprintf(result.sentence, sizeof(result.sentence), "there is no test_data_set_0");
    onnx_model_free(model);
    return result;
}
