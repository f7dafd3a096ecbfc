// Calls the server of stubs_test.py by the stubs for Go, and prints fields of the responses.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"time"

	"chorale/v1"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

func request() *choralev1.SampleRequest {
	columns := []*choralev1.Column{
		{Name: "price", Values: &choralev1.Column_Numeric{Numeric: &choralev1.NumericValues{
			Values: []float64{9.5, math.NaN()}, Meaning: choralev1.NumericValues_MEANING_DURATION}}},
		{Name: "shop", Values: &choralev1.Column_Categorical{Categorical: &choralev1.CategoricalValues{
			Categories: []string{"north", "süd"}, Codes: []int32{1, -1}}}},
		{Name: "open", Values: &choralev1.Column_Bools{Bools: &choralev1.BoolValues{
			Values: []bool{true, false}, MissingRows: []int64{1}}}},
		{Name: "units", Values: &choralev1.Column_Integers{Integers: &choralev1.IntegerValues{
			Values: []int64{-(1 << 53), 12}}}},
		{Name: "note", Values: &choralev1.Column_Strings{Strings: &choralev1.StringValues{
			Values: []string{"", "été"}}}},
		{Name: "day", Values: &choralev1.Column_Dates{Dates: &choralev1.DateValues{
			Days: []int32{-719162, 20000}}}},
		{Name: "time", Values: &choralev1.Column_Timestamps{Timestamps: &choralev1.TimestampValues{
			Microseconds: []int64{-62135596800000000, 1764288000000001}}}},
	}
	return &choralev1.SampleRequest{
		Context: "contexts/sales", Rows: &choralev1.Table{Columns: columns}, PathCount: 2,
		Seed: proto.Uint64(0), Order: choralev1.SampleRequest_ORDER_RANDOM_PER_PATH,
		BeyondBuffer: choralev1.BeyondBuffer_BEYOND_BUFFER_WRAP}
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := choralev1.NewChoraleClient(must(grpc.Dial(os.Args[1], grpc.WithInsecure())))

	info := must(client.GetServerInfo(ctx, &choralev1.GetServerInfoRequest{}))
	fmt.Println("version", info.GetVersion(), info.GetFeatures()[0])
	list := must(client.ListContexts(ctx, &choralev1.ListContextsRequest{}))
	for _, c := range list.GetContexts() {
		fmt.Println("context", c.GetName(), c.GetState())
	}
	stream := must(client.Sample(ctx, request()))
	for {
		response, err := stream.Recv()
		if err == io.EOF {
			break
		}
		for _, block := range must(response, err).GetBlocks().GetBlocks() {
			for i, value := range block.GetValues() {
				fmt.Println("value", value, "row", block.GetRows()[i])
			}
		}
		if summary := response.GetSummary(); summary != nil {
			fmt.Println("seed", summary.GetSeed())
		}
	}
}
