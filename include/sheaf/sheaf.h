/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_H
#define SHEAF_H

/** @file
 *  All of sheaf. Each header is one concept and can be included alone.
 *
 *  What stands in brackets, (S81), (R4.19), are numbers of requirements, each of which a test names: see References in
 *  CONTRIBUTING.md. */

#include <sheaf/account.h>
#include <sheaf/bundle.h>
#include <sheaf/checkpoint.h>
#include <sheaf/cluster.h>
#include <sheaf/context.h>
#include <sheaf/dataset.h>
#include <sheaf/device.h>
#include <sheaf/element.h>
#include <sheaf/event.h>
#include <sheaf/example.h>
#include <sheaf/export.h>
#include <sheaf/features.h>
#include <sheaf/frame.h>
#include <sheaf/input.h>
#include <sheaf/metric.h>
#include <sheaf/npy.h>
#include <sheaf/ops.h>
#include <sheaf/optimizer.h>
#include <sheaf/partitioner.h>
#include <sheaf/print.h>
#include <sheaf/record.h>
#include <sheaf/server.h>
#include <sheaf/status.h>
#include <sheaf/strategy.h>
#include <sheaf/team.h>
#include <sheaf/tensor.h>
#include <sheaf/tensor_file.h>
#include <sheaf/values.h>
#include <sheaf/variable.h>
#include <sheaf/version.h>

#endif
