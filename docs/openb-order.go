// The order in which FGD's simulator creates the pods of a list for a seed, with -tune 1.3 and
// --shuffle-pod=true, one pod number a line: go run openb-order.go SEED < LIST.csv > ORDER.txt
package main

import (
	"encoding/csv"
	"fmt"
	"math/rand"
	"os"
	"sort"
	"strconv"
)

const gpuMilli = 6212 * 1000

// Columns of a pod list: name, cpu_milli, memory_mib, num_gpu, gpu_milli.
const name, gpus, milli = 0, 3, 4

func main() {
	seed, err := strconv.ParseInt(os.Args[1], 10, 64)
	if err != nil {
		panic(err)
	}
	pods, err := csv.NewReader(os.Stdin).ReadAll()
	if err != nil {
		panic(err)
	}
	pods = pods[1:]
	sort.Slice(pods, func(a, b int) bool { return pods[a][name] < pods[b][name] })
	number := func(text string) int { n, _ := strconv.Atoi(text); return n }
	order, asked := make([]int, len(pods)), 0
	for i, pod := range pods {
		order[i] = i
		asked += number(pod[gpus]) * number(pod[milli])
	}
	random := rand.New(rand.NewSource(seed))
	random.Int() // The simulator spends one draw on a log line.
	random.Shuffle(len(order), func(a, b int) { order[a], order[b] = order[b], order[a] })
	for {
		i := random.Intn(len(pods))
		// What decides is one GPU of the pod; what is counted are all.
		if asked+number(pods[i][milli]) > gpuMilli*13/10 {
			break
		}
		asked += number(pods[i][gpus]) * number(pods[i][milli])
		order = append(order, i)
	}
	for _, i := range order {
		fmt.Println(number(pods[i][name][len("openb-pod-"):]))
	}
}
