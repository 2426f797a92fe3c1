//go:build before_1_33

package fwk

import (
	"context"

	v1 "k8s.io/api/core/v1"
)

func Score(ctx context.Context, plugin ScorePlugin, state CycleState, pod *v1.Pod, info NodeInfo) (int64, *Status) {
	return plugin.Score(ctx, state, pod, info.Node().Name)
}
