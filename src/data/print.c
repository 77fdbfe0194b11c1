/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "data/stage.h"
#include "tensor/frame.h"

#include <sheaf/print.h>

/* How a dataset prints (P6.5): by its last stage, in TensorFlow's names. */

static const char *const class_names[SHEAF__STAGE_COUNT] = {
    [SHEAF__STAGE_RANGE] = "_RangeDataset",
    [SHEAF__STAGE_FROM_TENSORS] = "_TensorDataset",
    [SHEAF__STAGE_FROM_SLICES] = "_TensorSliceDataset",
    [SHEAF__STAGE_FROM_GENERATOR] = "_FlatMapDataset",
    [SHEAF__STAGE_LIST_FILES] = "_TensorSliceDataset",
    [SHEAF__STAGE_TFRECORD] = "TFRecordDatasetV2",
    [SHEAF__STAGE_TEXT_LINES] = "TextLineDatasetV2",
    [SHEAF__STAGE_FIXED_RECORDS] = "FixedLengthRecordDatasetV2",
    [SHEAF__STAGE_CSV] = "CsvDatasetV2",
    [SHEAF__STAGE_MAP] = "_MapDataset",
    [SHEAF__STAGE_FILTER] = "_FilterDataset",
    [SHEAF__STAGE_BATCH] = "_BatchDataset",
    [SHEAF__STAGE_PADDED_BATCH] = "_PaddedBatchDataset",
    [SHEAF__STAGE_UNBATCH] = "_UnbatchDataset",
    [SHEAF__STAGE_CACHE] = "CacheDataset",
    [SHEAF__STAGE_SHUFFLE] = "_ShuffleDataset",
    [SHEAF__STAGE_REPEAT] = "_RepeatDataset",
    [SHEAF__STAGE_TAKE] = "_TakeDataset",
    [SHEAF__STAGE_SKIP] = "_SkipDataset",
    [SHEAF__STAGE_SHARD] = "_ShardDataset",
    [SHEAF__STAGE_ENUMERATE] = "_ZipDataset",
    [SHEAF__STAGE_ZIP] = "_ZipDataset",
    [SHEAF__STAGE_CONCATENATE] = "_ConcatenateDataset",
    [SHEAF__STAGE_PREFETCH] = "_PrefetchDataset",
    [SHEAF__STAGE_PARSE_EXAMPLE] = "_ParseExampleDataset",
    [SHEAF__STAGE_INTERLEAVE] = "_InterleaveDataset",
    [SHEAF__STAGE_FLAT_MAP] = "_FlatMapDataset",
    [SHEAF__STAGE_OPTIONS] = "_OptionsDataset",
    [SHEAF__STAGE_REBATCH] = "_RebatchDataset",
};

/* Stages that TensorFlow makes of a map. */
static const char otherwise[] = "_MapDataset";

static const char *class_name(const sheaf_dataset *d)
{
    for (int id = 0; id < SHEAF__STAGE_COUNT; id++)
        if (sheaf__dataset_is(d, id) && class_names[id])
            return class_names[id];
    return otherwise;
}

const char *sheaf_dataset_str(const sheaf_dataset *d)
{
    struct sheaf__str out = {0};
    if (!d)
        return "None";
    if (d->error.status < 0)
        sheaf__str_printf(&out, "<failed dataset: %s>", d->error.message);
    else
        sheaf__str_printf(&out, "<%s element_spec=%s>", class_name(d), sheaf_spec_str(d->spec));
    return sheaf__frame_str(&out);
}
