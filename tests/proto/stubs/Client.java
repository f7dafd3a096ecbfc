// Calls the server of stubs_test.py by the stubs for Java, and prints fields of the responses.

import chorale.v1.*;
import chorale.v1.Context;  // not io.grpc.Context
import io.grpc.*;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.TimeUnit;

public final class Client {
  private static Column.Builder column(String name) {
    return Column.newBuilder().setName(name);
  }

  private static SampleRequest request() {
    Table.Builder rows = Table.newBuilder();
    rows.addColumns(column("price").setNumeric(NumericValues.newBuilder()
        .setMeaning(NumericValues.Meaning.MEANING_DURATION)
        .addAllValues(List.of(9.5, Double.NaN))));
    rows.addColumns(column("shop").setCategorical(CategoricalValues.newBuilder()
        .addAllCategories(List.of("north", "süd")).addAllCodes(List.of(1, -1))));
    rows.addColumns(column("open").setBools(BoolValues.newBuilder()
        .addAllValues(List.of(true, false)).addMissingRows(1)));
    rows.addColumns(column("units").setIntegers(IntegerValues.newBuilder()
        .addAllValues(List.of(-(1L << 53), 12L))));
    rows.addColumns(column("note").setStrings(
        StringValues.newBuilder().addAllValues(List.of("", "été"))));
    rows.addColumns(column("day").setDates(
        DateValues.newBuilder().addAllDays(List.of(-719162, 20000))));
    rows.addColumns(column("time").setTimestamps(TimestampValues.newBuilder()
        .addAllMicroseconds(List.of(-62135596800000000L, 1764288000000001L))));
    return SampleRequest.newBuilder().setContext("contexts/sales").setRows(rows).setPathCount(2)
        .setSeed(0).setOrder(SampleRequest.Order.ORDER_RANDOM_PER_PATH)
        .setBeyondBuffer(BeyondBuffer.BEYOND_BUFFER_WRAP).build();
  }

  public static void main(String[] arguments) {
    ManagedChannel channel = ManagedChannelBuilder.forTarget(arguments[0]).usePlaintext().build();
    ChoraleGrpc.ChoraleBlockingStub client =
        ChoraleGrpc.newBlockingStub(channel).withDeadlineAfter(1, TimeUnit.MINUTES);

    ServerInfo info = client.getServerInfo(GetServerInfoRequest.getDefaultInstance());
    System.out.println("version " + info.getVersion() + " " + info.getFeatures(0));
    ListContextsRequest list = ListContextsRequest.getDefaultInstance();
    for (Context context : client.listContexts(list).getContextsList()) {
      System.out.println("context " + context.getName() + " " + context.getState());
    }
    Iterator<SampleResponse> stream = client.sample(request());
    while (stream.hasNext()) {
      SampleResponse response = stream.next();
      for (SampleBlock block : response.getBlocks().getBlocksList()) {
        for (int i = 0; i < block.getValuesCount(); ++i) {
          System.out.println("value " + block.getValues(i) + " row " + block.getRows(i));
        }
      }
      if (response.getPayloadCase() == SampleResponse.PayloadCase.SUMMARY) {
        System.out.println("seed " + Long.toUnsignedString(response.getSummary().getSeed()));
      }
    }
    channel.shutdownNow();
  }
}
